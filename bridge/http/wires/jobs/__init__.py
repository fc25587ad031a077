"""Speaks the wires of Youzan's delay queue and its descendants, ouqiang and changsongl."""
