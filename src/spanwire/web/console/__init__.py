"""The web console: pages for operators, made on the server, with small ES modules for what a page cannot do itself.

Pages read the views and run the operations of the HTTP API (`spanwire.web.api`) with the caller's own handle, so the
console may do nothing that the API may not. Needs Jinja2 of the extra ``web``.

- A *page* is a template with the rows of some views (`rendering`); `pages` has those that show something.
- A *list page* shows one view with search, order and paging, by the words of `spanwire.management.tables.listing`.
- An *operation* is a form whose POST changes something (`operations`).
- A *moment* is a time in UTC that a module of the browser shows in the viewer's zone.
"""
