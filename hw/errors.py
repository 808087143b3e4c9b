"""The five errors that tilewright raises for bad input or a failing machine.

Every message is one line that names the thing, the reason and what to do.
"""


class Error(Exception):
    """Base of every error that tilewright raises on purpose."""


class ConfigError(Error):
    """A configuration that cannot be built; names the field, the rule and a legal value."""


class ModelError(Error):
    """A model that cannot be read; names the file, or the node, operator and attribute."""


class CompileError(Error):
    """A model that cannot be compiled for a config; names the stage, the node, need and have."""


class SimulationError(Error):
    """A program that broke a rule of the machine; names the engine and the instruction."""


class DeviceError(Error):
    """A device or tool that is missing, refused the program, or stopped; names its state."""
