"""Options in sentences are code; everything else stays text."""

import pytest

from prism_irl.report.markup import marked_options


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("run more starts (--n-starts).", "run more starts (<code>--n-starts</code>)."),
        ("leave --surrogates at 19", "leave <code>--surrogates</code> at 19"),
        ("a -- b, a--b, ---, x --", "a -- b, a--b, ---, x --"),
        ("<b>--out</b> & <i>", "&lt;b&gt;<code>--out</code>&lt;/b&gt; &amp; &lt;i&gt;"),
    ],
)
def test_only_options_are_code(text, page):
    assert str(marked_options(text)) == page
