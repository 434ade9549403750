"""Does what each line of standard input says with confluent-kafka, and prints what came of it: see Admins.java."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from confluent_kafka import KafkaException

k: Any = import_module("confluent_kafka.admin")  # its types do not tell of half of what is in it
LIMIT_S = 30


def begun(admin: Any, words: list[str]) -> dict[Any, Any]:
    """Do it; gives its futures, none where this release has no such call."""
    what, name, *more = words
    if what == "create":
        config = {more[2]: more[3]} if len(more) > 2 else {}
        topic = k.NewTopic(name, num_partitions=int(more[0]), replication_factor=int(more[1]), config=config)
        return dict(admin.create_topics([topic]))
    if what == "grow":
        return dict(admin.create_partitions([k.NewPartitions(name, int(more[0]))]))
    if what == "alter":
        return dict(admin.alter_configs([k.ConfigResource(k.ResourceType.TOPIC, name, set_config={more[0]: more[1]})]))
    if what == "incremental":
        if not hasattr(admin, "incremental_alter_configs"):
            return {}
        change = k.ConfigEntry(more[0], more[1], incremental_operation=k.AlterConfigOpType.SET)
        resource = k.ConfigResource(k.ResourceType.TOPIC, name, incremental_configs=[change])
        return dict(admin.incremental_alter_configs([resource]))
    rule = (k.ResourceType.TOPIC, name, k.ResourcePatternType.LITERAL, more[0] if more else "", "*")
    if what == "allow":
        return dict(admin.create_acls([k.AclBinding(*rule, k.AclOperation.READ, k.AclPermissionType.ALLOW)]))
    if what == "disallow":
        return dict(admin.delete_acls([k.AclBindingFilter(*rule, k.AclOperation.READ, k.AclPermissionType.ALLOW)]))
    return dict(admin.delete_topics([name]))


def main(bootstrap: str) -> None:
    """Serve standard input."""
    admin = k.AdminClient({"bootstrap.servers": bootstrap})
    for line in sys.stdin:
        futures = begun(admin, line.split())
        outcome = 0 if futures else "absent"
        for future in futures.values():
            try:
                future.result(LIMIT_S)
            except KafkaException as e:
                outcome = e.args[0].code()
        print(outcome, flush=True)


main(sys.argv[1])
