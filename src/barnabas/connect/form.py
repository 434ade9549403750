"""What the validation of a connector's configuration has looked at: settings in the order of Connect's answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from barnabas.connect.definitions import Definition, Examined


@dataclass(slots=True)
class Form:
    """What has been looked at so far. errors: how many there are."""

    groups: list[str] = field(default_factory=list)
    rows: list[tuple[Definition | None, Examined]] = field(default_factory=list)

    def add(self, definition: Definition, found: Examined) -> Examined:
        """Put a setting at the end."""
        self.rows.append((definition, found))
        if definition.group is not None and definition.group not in self.groups:
            self.groups.append(definition.group)
        return found

    def found(self, name: str) -> Examined:
        """Give what a setting came to; one that nobody declares is put in front."""
        for _, each in self.rows:
            if each.name == name:
                return each
        made = Examined(name)
        self.rows.insert(0, (None, made))
        return made
