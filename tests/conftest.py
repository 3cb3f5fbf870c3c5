"""Hypothesis profiles: `quick` tries the same examples every time, `few` as few as will do, `long` many new ones."""

from hypothesis import HealthCheck, settings

_COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}

settings.register_profile("quick", derandomize=True, database=None, max_examples=100, **_COMMON)
settings.register_profile("few", derandomize=True, database=None, max_examples=15, **_COMMON)
settings.register_profile("long", max_examples=3000, **_COMMON)
settings.load_profile("quick")
