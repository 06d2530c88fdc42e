"""Parameters: domains in annotations, knobs made of them, and the sentence that refuses a value."""

from principia.lab.params.domains import (
    Bits,
    Choice,
    Domain,
    Each,
    Entries,
    Jobs,
    Maybe,
    NonNegativeFloat,
    NonNegativeInt,
    OrPart,
    Outside,
    PositiveFloat,
    PositiveInt,
    Range,
    SeedNumber,
    Seeds,
    Signs,
    Switch,
    Text,
    UnitInterval,
    domain_of,
)
from principia.lab.params.errors import Failure, UsageError, shown, suggestion, usage_error
from principia.lab.params.knobs import (
    MADE_WITH,
    REQUIRED,
    Knob,
    check_params,
    checked,
    knobs_of,
    meanings,
    settings,
    text_of,
)

__all__ = [
    "MADE_WITH", "REQUIRED", "Bits", "Choice", "Domain", "Each", "Entries", "Failure", "Jobs",
    "Knob", "Maybe", "NonNegativeFloat", "NonNegativeInt", "OrPart", "Outside", "PositiveFloat",
    "PositiveInt", "Range", "SeedNumber", "Seeds", "Signs", "Switch", "Text", "UnitInterval",
    "UsageError", "check_params", "checked", "domain_of", "knobs_of", "meanings", "settings",
    "shown", "suggestion", "text_of", "usage_error",
]
