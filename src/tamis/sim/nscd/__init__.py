"""Non-smooth contact dynamics: rigid bodies, unilateral contact, Coulomb friction, no regularisation."""
