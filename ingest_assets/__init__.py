"""ingest-assets: keeps a pgvector index true to a bucket of documents.

| step    | module        | takes                    | gives                                   |
|---------|---------------|--------------------------|-----------------------------------------|
| source  | `source/`     | a bucket or a folder     | `SourceObject`, `SourceContent`         |
| extract | `extract/`    | bytes                    | `Extracted`: text, pages, headings      |
| chunk   | `chunk/`      | `Extracted`              | `Span`s that join to the text again     |
| embed   | `embed/`      | distinct texts           | one vector per text and model version   |
| publish | `publish.py`  | a complete document      | its rows in the retrieval index         |
| checks  | `checks.py`   | the database             | verdicts with counts and offenders      |

`ingest.py` and `embedding.py` join the steps into the two bodies that Dagster runs (`defs/`).
"""
