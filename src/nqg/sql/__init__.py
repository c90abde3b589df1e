"""SQL as programs: schemas of databases, queries as a grammar learns them, and databases that
answer queries.
"""
