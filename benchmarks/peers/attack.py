"""The training attack once more, for arrays of any library; `xp` is that library (torch or jax.numpy).

A refresh takes peers minutes. They are compared by a whole attack on the first SAMPLE inputs, which do not know of the
others, and timed by single iterations on the batch: all iterations cost them the same, and they share nothing.
"""

SAMPLE = 4


def ascend(case, gradient, xp, count, steps):
    """The first `count` inputs after `steps` steps of projected ascent, where gradient(a) is the loss's slope at a."""
    attack, clean, z, radius = case.attack, case.clean[:count], case.start[:count], case.radius[:count]
    for _ in range(steps):
        slope = _tied(gradient(_tied(clean + z, attack, xp)), attack, xp)
        direction = xp.sign(slope) if attack["pointwise"] else slope / (_norm(slope) + 1e-12)
        z = _project(z + attack["step_size"] * radius * direction, radius, attack, xp)
    return _tied(clean + z, attack, xp)


def _project(z, radius, attack, xp):
    if attack["pointwise"]:
        return xp.clip(_tied(z, attack, xp), -radius, radius)
    return z * xp.clip(radius / _norm(z), None, 1.0)


def _norm(z):
    return ((z**2).sum(1) ** 0.5)[:, None]


def _tied(z, attack, xp):
    """Both ends at their mean, where inputs are periodic."""
    if not attack["periodic"]:
        return z
    ends = 0.5 * (z[:, :1] + z[:, -1:])
    return xp.concatenate([ends, z[:, 1:-1], ends], 1)
