"""What scikit-learn asks of an estimator, without importing it: that alone takes longer than a small fit.

`clone`, cross-validation and grid searches ask for `get_params`, `set_params` and tags; its base class has nothing else
that our models use.
"""

from __future__ import annotations

import inspect
from functools import cache
from typing import Any, Self


class Parametrised:
    """A class whose constructor stores its arguments under their own names."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Parameters by name, as they were given; ``deep`` adds those of parameters that have some themselves."""
        found: dict[str, Any] = {}
        for name in self._defaults():
            value = found[name] = vars(self)[name] if name in vars(self) else getattr(self, name)
            if deep and hasattr(value, "get_params") and not isinstance(value, type):
                found |= {f"{name}__{inner}": part for inner, part in value.get_params().items()}
        return found

    def set_params(self, **parameters: Any) -> Self:
        """Set some parameters; ``a__b`` is parameter b of parameter a."""
        known = self._defaults()
        for key, value in parameters.items():
            name, _, inner = key.partition("__")
            if name not in known:  # a ValueError, because that is what scikit-learn's searches expect
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}.")
            if inner:
                getattr(self, name).set_params(**{inner: value})
            else:
                setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The constructor's call, without what is as it is by default."""
        given = {name: repr(getattr(self, name)) for name in self._defaults()}
        changed = (f"{name}={text}" for name, text in given.items() if text != repr(self.default_of(name)))
        return f"{type(self).__name__}({', '.join(changed)})"

    def parameters_read(self) -> set[str]:
        """Names of the parameters that have an effect."""
        return set(self._defaults())

    def default_of(self, name: str) -> Any:
        """What a parameter is where it is not given."""
        return self._defaults()[name]

    @classmethod
    def _defaults(cls) -> dict[str, Any]:
        """Parameters of the constructor in alphabetical order, and their defaults."""
        return _defaults_of(cls)  # type: ignore[arg-type]  # a class can be hashed

    def __sklearn_tags__(self) -> Any:
        """Those of any estimator."""
        from sklearn.base import BaseEstimator

        return BaseEstimator.__sklearn_tags__(self)


@cache
def _defaults_of(cls: type) -> dict[str, Any]:
    """Read once for every class: a hundred fits side by side ask thousands of times."""
    given = inspect.signature(cls.__init__).parameters  # type: ignore[misc]
    named = [name for name, one in given.items() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
    return {name: given[name].default for name in sorted(named) if name != "self"}


def not_fitted(message: str) -> Exception:
    """The error of a model that is asked before it is fitted, which scikit-learn's users catch by its name."""
    from sklearn.exceptions import NotFittedError

    return NotFittedError(message)  # type: ignore[no-any-return]
