"""The numbers by which the contact solvers decide, and what each was measured on.

*wall*: the dry wall struck by a block, 700 steps; *heaps*: 200 to 2000 grains coming down; *packs*: six colliding packs
of 1900 to 3500 contacts; *piles*: 200 grains, 430 to 640 contacts; *articulated wall*: struck at 20 and at 28 m/s, a
step in twenty of a second of each. Where nothing is said of a measurement, results and times hardly depend on the
number within a factor of two, or nobody has tried another. "Of the goal" is of the residual that is asked for, as a
velocity.
"""

from __future__ import annotations

# Which method follows the first sweeps: `solve`
FIRST_SWEEPS = 30  # at 0.06 us a contact cheap beside one factorisation; 10 and 60 have been in use
ROUND_OFF = 1e-13  # a residual that is as good as zero
MAX_BODIES, MAX_CONTACTS = 400, 6000  # above, the direct methods need too much room
MAX_PRODUCTS = 3  # of 6x6 blocks a contact: the wall and arches have one or two, piles ten;
CHEAP = 2000  # so many (34 us) are few for any contacts: a chain of m bodies, one a pair, has 4 m - 3
MAX_ITERATIONS = 4000  # of all methods, a bout of patches as one; no step of 13 000 of heaps came near

# Few bodies: direct methods, and another start where they do not end
BOUT = 20  # iterations of Newton's method with an active set; 12 and 30 take as long on the articulated wall
STEADY = 40  # iterations of the one with a proximal centre, which takes every other attempt
PATH_ATTEMPT = 7  # the interior-point method's attempt; odd, for even ones end with the active set
PATH_STEPS = 40  # of the interior-point method, which takes 14 to 17 on piles
POLISH = 30  # iterations of Newton's method from where the path ends,
POLISH_STIFFNESS = 1e3  # begun stiff: who carries is decided
REST_STIFFNESS = 1e4  # of the one centre of bodies at rest
BETWEEN = 40  # sweeps between two attempts; they end what Newton's method leaves, and the other way round
STUCK = 5  # attempts in a row after which something else is tried,
LONG = 150  # so many sweeps

# Newton's method with an active set: `active_set`; measured on 65 steps of the articulated wall and 21 of the wall
DECIDE = 10.0  # rho times w: how much of an impulse a velocity counts when the set is guessed,
VARY = 0.3  # and by which it changes, up and down, from iteration to iteration
STIFF = 3e3  # one over the softness of contacts that carry, in units of w; 1e5 ends half as often, 1e3 takes longer
STIFFER, STIFFEST = (
    10.0,
    1e6,
)  # growth, up to this, after a step that leaves less than this share of the errors:
DIGITS = 0.5
SOFTER = 0.1  # after a step that was rejected
REJECT = 30.0  # growth of the errors at which one is; at 2 a fifth to two fifths fewer problems are solved
SHORTER, SHORTEST = 0.4, 0.3  # by which a step is shortened, until it is less than this

# Many bodies: sweeps over the contacts that need them, and patches; all measured on heaps
ROUND = 25  # sweeps between two looks at the residual
FEW, SOME = 0.02, 5  # share and number of unsettled contacts from which on sweeps keep to their surroundings;
MANY, SLOW = 0.05, 0.9  # share from which on they are solved in patches if so much of them was left as before
NEARBY = 40  # sweeps of the surroundings, a tenth of the price
SHORT = 16  # sweeps after either, from rest: with momentum a few contacts can swing on and on
QUIET = 0.05  # of the goal: change after which a contact waits
SETTLED = 0.2  # of the goal: changes at which sweeps end
UNSETTLED = 0.5  # of the goal: residual of a contact that is taken into a patch,
WELL = 0.2  # and into a larger one, where patches go round in circles; that ended all of fourteen such steps

# Gauss-Seidel
MOMENTUM = 0.9  # largest share of the last change that is added to the next start; closer to 1 and
RESTART = (
    1.1  # dropped at the first growth of the changes instead of a tenth, packs take half as many sweeps again
)
SLIP_STEPS = 4  # of Newton's method to a slip number that is near that of the visit before
LONGEST = 8  # sweeps that a contact waits; heaps are spared a fifth to a half of the visits
DEPTH = 2  # bodies between an unsettled contact and the end of its surroundings
CLOSE = 1e-3  # share by which the cone may be missed before the impulse is scaled back to it

# The residual: `problem`
STILL = 1e-6  # share of the velocities in space below which relative ones are round-off
LOAD = 30.0  # how many times the free velocities the impulses may count in the scale
