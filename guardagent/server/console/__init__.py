"""The console: pages about a server for its approvers, auditors and admins, in a browser.

console_application   routes, sign-in, headers
console_sessions      who is signed in
console_page          a page, and what its handler gets and returns
page_table            all pages
rendering             templates and their filters
pages/                a module for each page
"""
