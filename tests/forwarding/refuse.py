"""A policy for tests: topics whose name begins with `refused` may not be."""

from __future__ import annotations

from barnabas.server.policies import CreateTopicPolicy, PolicyViolationError, TopicRequest


class RefuseByName(CreateTopicPolicy):
    """A `create.topic.policy.class.name`."""

    def validate(self, request: TopicRequest) -> None:
        """Refuse by the name."""
        if request.topic.startswith("refused"):
            raise PolicyViolationError("the name begins with refused")
