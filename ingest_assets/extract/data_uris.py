"""Files that are written into a text as `data:` addresses: no reader reads them, and one fills a thousand chunks.

What does not belong here: anything else that looks encoded; a long word may be the document.
"""

import regex

_TYPE = r"data:[a-z0-9.+-]{1,99}/[a-z0-9.+-]{1,99}(?:;(?!base64,)[a-z0-9=.+-]{1,99}){0,9}"
_CHARACTERS = r"(?:[a-z0-9+/=_-]|%[0-9a-f]{2})"
# A picture may be broken into lines, of which only long ones are surely a part of it.
_LINES = (
    r"(?:[ \t]{0,8}\n[ \t>]{0,8}[a-z0-9+/]{60,}+={0,2}(?:(?:[ \t]{0,8}\n[ \t>]{0,8}[a-z0-9+/]{60,}+={0,2})*+"
    r"[ \t]{0,8}\n[ \t>]{0,8}[a-z0-9+/]{4,}+(?:={1,2}|(?=[\"')>])))?)?"
)
_ANY = regex.compile(rf"{_TYPE}(?:;base64,{_CHARACTERS}*+{_LINES}|,[^\s)>\"']*+)", regex.IGNORECASE)
_LONG = regex.compile(rf"{_TYPE};base64,{_CHARACTERS}{{64,}}+{_LINES}", regex.IGNORECASE)


def without_data(text: str) -> str:
    """Drop every `data:` address, as from Markdown, where it is the target of a link or picture."""
    return _ANY.sub("", text) if "data:" in text.lower() else text


def without_long_data(text: str) -> str:
    """Drop `data:` addresses with 64 characters of base64 or more; shorter ones are what the text is about."""
    return _LONG.sub("", text) if ";base64," in text.lower() else text
