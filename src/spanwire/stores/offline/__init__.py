"""Operations on the store of a stopped broker: check, repair, export, import."""
