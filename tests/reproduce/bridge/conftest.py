"""Episodes for tests of readers."""

from small_episodes import episodes, same_pictures

__all__ = ["episodes", "same_pictures"]
