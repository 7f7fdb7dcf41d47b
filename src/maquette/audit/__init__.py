"""Attacks that a private release must withstand. They can refute a claim of privacy, never prove one."""
