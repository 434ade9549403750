"""What a test cluster does to its own node: requests straight to the controller, in the node's own name."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from barnabas.core.metadata.configs import ConfigResourceType
from barnabas.core.metadata.scram import ScramMechanism
from barnabas.model.acl import AclBinding
from barnabas.server.replication.partitions import INTERNAL_TOPICS
from barnabas.wire.errors import ApiError, ErrorCode
from barnabas.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    OpData,
    RequestEntryData,
)
from barnabas.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from barnabas.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from barnabas.wire.messages.create_acls import AclCreation, CreateAclsRequest
from barnabas.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from barnabas.wire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState

if TYPE_CHECKING:
    from barnabas.server.node import Node

ITERATIONS: Final = 4096
_DIGESTS: Final = {ScramMechanism.SCRAM_SHA_256: "sha256", ScramMechanism.SCRAM_SHA_512: "sha512"}
ANY: Final = 1
SUPER_USER: Final = "admin"
TIMEOUT_MS: Final = 60_000


class NodeAdmin:
    """Changes to the cluster, on the node's own loop. ApiError when the controller refuses."""

    def __init__(self, node: Node) -> None:
        self._node = node

    async def create_user(
        self, name: str, password: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_512
    ) -> None:
        """Make a user of SCRAM, or give one another password."""
        salt = secrets.token_bytes(24)
        digest = _DIGESTS[mechanism]
        salted = hashlib.pbkdf2_hmac(digest, password.encode(), salt, ITERATIONS)
        upsertion = ScramCredentialUpsertion(
            name=name, mechanism=mechanism, iterations=ITERATIONS, salt=salt, salted_password=salted
        )
        answer = await self._call(AlterUserScramCredentialsRequest(upsertions=[upsertion]))
        _check(answer.results[0].error_code, answer.results[0].error_message)

    async def create_acl(self, binding: AclBinding) -> None:
        """Add one rule."""
        creation = AclCreation(
            resource_type=binding.pattern.resource_type,
            resource_name=binding.pattern.name,
            resource_pattern_type=binding.pattern.pattern_type,
            principal=binding.principal,
            host=binding.host,
            operation=binding.operation,
            permission_type=binding.permission_type,
        )
        answer = await self._call(CreateAclsRequest(creations=[creation]))
        _check(answer.results[0].error_code, answer.results[0].error_message)

    async def create_topic(self, name: str, partitions: int, configs: Mapping[str, str]) -> None:
        """Make a topic; it can be used when this returns."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=1,
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        answer = await self._call(CreateTopicsRequest(topics=[topic], timeout_ms=TIMEOUT_MS))
        _check(answer.topics[0].error_code, answer.topics[0].error_message)

    async def reset(self) -> None:
        """Take away what tests have made."""
        image = self._node.image()
        topics = [name for name in image.topics.by_name if name not in INTERNAL_TOPICS]
        if topics:
            wanted = [DeleteTopicState(name=name) for name in sorted(topics)]
            await self._call(DeleteTopicsRequest(topics=wanted, timeout_ms=TIMEOUT_MS))
        if image.acls.by_id:
            everything = DeleteAclsFilter(
                resource_type_filter=ANY, pattern_type_filter=ANY, operation=ANY, permission_type=ANY,
                resource_name_filter=None, principal_filter=None, host_filter=None,
            )  # fmt: skip
            await self._call(DeleteAclsRequest(filters=[everything]))
        await self._reset_users()
        await self._reset_quotas()
        await self._reset_configs()
        groups = [g.group_id for g in self._node.groups.listed([], [])]
        await self._node.groups.delete_groups(groups)

    async def _reset_users(self) -> None:
        deletions = [
            ScramCredentialDeletion(name=user, mechanism=mechanism.value)
            for mechanism, users in self._node.image().scram.by_mechanism.items()
            for user in users
            if user != SUPER_USER
        ]
        if deletions:
            await self._call(AlterUserScramCredentialsRequest(deletions=deletions))

    async def _reset_quotas(self) -> None:
        entries = [
            RequestEntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                ops=[OpData(key=key, remove=True) for key in quotas],
            )
            for entity, quotas in self._node.image().client_quotas.by_entity.items()
        ]
        if entries:
            await self._call(AlterClientQuotasRequest(entries=entries))

    async def _reset_configs(self) -> None:
        brokers = [
            AlterConfigsResource(resource_type=ConfigResourceType.BROKER, resource_name=resource.name)
            for resource in self._node.image().configs.by_resource
            if resource.type is ConfigResourceType.BROKER and resource.name
        ]
        if brokers:
            await self._call(AlterConfigsRequest(resources=brokers))

    async def _call(self, request: Any) -> Any:
        return await self._node.channel.call(request, request.MAX_VERSION)


def _check(code: int, message: str | None) -> None:
    if code:
        raise ApiError(ErrorCode(code), message)
