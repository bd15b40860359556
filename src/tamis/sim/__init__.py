"""The mechanical simulators shipped with tamis, one folder a family; nothing here knows statistics."""
