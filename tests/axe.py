"""axe-core, which examines a page for what keeps people out: from a package, in the test's own browser."""

from importlib import resources

from playwright.sync_api import Page


def install(page: Page) -> None:
    """In every document that this browser opens from now on."""
    page.context.add_init_script((resources.files("axe_playwright_python") / "axe.min.js").read_text())


def findings(page: Page, *, only: str = "") -> list[str]:
    """What axe finds on the page as it is, each with the element it is about. `only` names a single rule."""
    options = {"resultTypes": ["violations"], **({"runOnly": [only]} if only else {})}
    return [
        f"{each['id']}: {node['target']} {node['any'][0]['message'] if node['any'] else each['help']}"
        for each in page.evaluate("options => axe.run(document, options)", options)["violations"]
        for node in each["nodes"]
    ]
