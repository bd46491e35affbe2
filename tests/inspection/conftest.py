from tests.inspection.support import loader

__all__ = ["loader"]
