from own_home import home

__all__ = ["home"]
