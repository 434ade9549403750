"""Does what each line of standard input says with kafka-python, and prints what came of it: see Admins.java."""

from __future__ import annotations

import re
import sys
from typing import Any

import kafka
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ConfigResource,
    ConfigResourceType,
    KafkaAdminClient,
    NewPartitions,
    NewTopic,
    ResourcePattern,
    ResourceType,
)
from kafka.errors import KafkaError

OLD = kafka.__version__.startswith("2.")


def begun(admin: Any, words: list[str]) -> int:
    """Do it; gives an error code where the client does not raise."""
    what, name, *more = words
    if what == "create":
        configs = {more[2]: more[3]} if len(more) > 2 else {}
        admin.create_topics([NewTopic(name, int(more[0]), int(more[1]), topic_configs=configs)])
    elif what == "grow":
        admin.create_partitions({name: NewPartitions(int(more[0]))})
    elif what in ("alter", "incremental"):
        resource = ConfigResource(ConfigResourceType.TOPIC, name, configs={more[0]: more[1]})
        if OLD:
            return int(admin.alter_configs([resource]).resources[0][0])
        answer = admin.alter_configs([resource], raise_on_unknown=False, incremental=what == "incremental")
        found = re.search(r"\[Error (\d+)\]", answer["topic"][name])
        return int(found[1]) if found else 0
    elif what == "allow":
        pattern = ResourcePattern(ResourceType.TOPIC, name)
        rule = ACL(more[0], "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)
        outcome = admin.create_acls([rule])
        assert outcome["succeeded"] == [rule], outcome
    elif what == "disallow":
        pattern = ResourcePattern(ResourceType.TOPIC, name)
        [(_, gone, _)] = admin.delete_acls(
            [ACLFilter(more[0], "*", ACLOperation.READ, ACLPermissionType.ALLOW, pattern)]
        )
        assert len(gone) == 1, gone
    elif what == "delete":
        admin.delete_topics([name])
    return 0


def main(bootstrap: str) -> None:
    """Serve standard input."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "incremental" and OLD:
            print("absent", flush=True)
            continue
        try:
            print(begun(admin, words), flush=True)
        except KafkaError as e:
            print(getattr(e, "errno", repr(e)), flush=True)
    admin.close()


main(sys.argv[1])
