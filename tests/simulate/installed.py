"""Installs the virtual clock in the process that imports this module. It must be the first import."""

from tests.simulate.clock import install

install()
