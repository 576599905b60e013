"""Sphinx's settings for the docs: plain Markdown in, pages with no foreign host out. build.py stages the sources."""

project = "Webhooks platform"
author = "the project's contributors"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
myst_heading_anchors = 4
myst_enable_extensions = ["html_image"]
nitpicky = True
# "…" and the like stand in JSON and in shell lines, which a reader understands and a lexer does not.
suppress_warnings = ["misc.highlighting_failure"]
html_theme = "furo"
html_title = "Webhooks platform"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sourcelink = False
html_copy_source = False
html_use_index = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#3451d1", "color-brand-content": "#3451d1"},
    "dark_css_variables": {"color-brand-primary": "#93a8ff", "color-brand-content": "#93a8ff"},
}
