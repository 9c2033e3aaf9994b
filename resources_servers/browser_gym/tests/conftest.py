"""Settings for the tests of this server."""

from hypothesis import HealthCheck, settings

# A busy machine is no fault of the code, so no example fails for having been slow.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
