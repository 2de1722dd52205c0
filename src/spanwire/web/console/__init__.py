"""The web console: pages for operators, made on the server, with small ES modules.

The modules do the work that a page cannot do alone.

Pages read the views and run the operations of the HTTP API (`spanwire.web.api`) with the caller's own handle, so the
console may do no more than the API. Needs Jinja2 of the extra ``web``.

- A *page* is a template with the rows of some views (`rendering`); `pages` has the pages for viewing.
- A *list page* shows one view with search, order and paging, by the words of `spanwire.management.tables.listing`.
- An *operation* is a form with a POST for a change (`operations`).
- A *moment* is a time in UTC, shown by a module of the browser in the viewer's zone.
"""
