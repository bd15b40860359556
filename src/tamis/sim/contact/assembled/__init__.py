"""Contact problems given by their matrix, ``u = W r + q``, without bodies: the same methods under the same names."""
