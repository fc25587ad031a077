"""Serves the HTTP protocols of Youzan's delay queue and its descendants, ouqiang and changsongl, to their clients."""
