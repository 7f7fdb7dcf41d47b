"""What is proved about the error: one function per theorem, public numbers in, bound out.

Bounds are in counts unless the name says otherwise; `direct` states them as fractions. Logarithms are natural
and the number of queries travels as its logarithm, so that 2^64 thresholds are no special case.
"""
