"""Reasons of Charterer's decisions. Each class of facts holds the data of a reason and makes its sentence."""
