-- Search of the retrieval index.

-- name: search_passages
-- The passages of a version that answer a question, best first.
SELECT document, chunk_id, score, text, page_start, page_end, heading
FROM serving.search(query_vector => %(query_vector)s::vector, query_text => %(query_text)s, k => %(k)s,
    filters => %(filters)s, mode => %(mode)s, model_version => %(version)s)
