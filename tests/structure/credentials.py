"""Finds the places of a source file that send a credential: in a header, a query, a cookie, an address, as `auth=` or
`password=` of a library's function, or in the environment of a child.

A credential is known by the name under which it is sent, or by the name of what is sent. Names of constants stand for
their texts.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from tests.structure.references import File, Place, is_ours, shipped

_WORD = (
    r"(?<![a-z])(?:authorization|token|secret|password|passwd|credential|api[-_]?key|access[-_]?key|bearer|cookie)s?"
    r"(?![a-z])"
)
NAMED = re.compile(_WORD, re.IGNORECASE)
"""A name of a credential, and the name under which one is sent."""
NO_CREDENTIAL = re.compile(r"progress_?token|www-authenticate|max_|_set$|_right$|_hint", re.IGNORECASE)
SLOT = re.compile(r"header|cookie|query|params|auth(?:_|$)", re.IGNORECASE)
"""A name of what is sent along with a request."""
_KEYWORDS = re.compile(r"(?:\w+_)?(?:headers|params|query|cookies|cookie)")
_GIVEN = re.compile(
    r"(?:\w+_)?(?:auth|cookies|password|passwd|api_key|apikey|access_token|bearer_token)|sentinel_kwargs"
)
"""Keywords of libraries that send what they are given."""
_ADDED = re.compile("append|add|extend|insert|set|setdefault|update")
_SENT = re.compile(
    r"add_header|putheader|send_header|set_cookie|update_cookies|urlencode|with_(?:query|user|password)"
    r"|(?:update|extend)_query|copy_(?:set|add)_param|copy_merge_params|set_param"
)
_CLASSES = re.compile(r".*\.(?:\w*(?:Basic|Digest|NetRC|Bearer)\w*|CookieJar|SimpleCookie|from_url|parse_url)")
"""Functions and classes of libraries that send a credential, or connect with one."""
_SCHEME = re.compile(r"(?:^|[\s\"':])(?:bearer|basic|digest|negotiate) $", re.IGNORECASE)
_PART = re.compile(rf"(?:[?&#;]|^|\s)[\w-]*{_WORD}[\w-]*=$|{_WORD}: ?$", re.IGNORECASE)
_IN_ADDRESS = re.compile(r"[?&][\w-]*=$|://[^/@]*$")
_ENVIRONMENT = re.compile(r"(?:[A-Z0-9]+_)+(?:KEYS?|TOKEN|SECRET|PASSWORD|STORE_URL)")
_ALWAYS = re.compile(r"(?:proxy-)?authorization|cookie|(?:x|framehold)-[\w-]*(?:token|secret|key)", re.IGNORECASE)
"""Headers that hold a credential, whatever the dictionary is called that has one."""
IN_CONFIGURATIONS = re.compile(r"set-header (?:framehold-proof|authorization)|include \"framehold\.derive\"")
"""What sends a credential from a load balancer, or has a pod derive one."""
IN_SCRIPTS = re.compile(r"Authorization|document\.cookie|credentials: *[\"'](?!omit)")
"""What sends a credential from a script of a page."""


def credentials(file: File) -> set[str]:
    """The functions and classes of a file that send a credential, by their qualified names; empty text for the
    module."""
    return {place.around for place in file.places if _sends(file, place)}


def _sends(file: File, place: Place) -> bool:
    node = place.node
    if isinstance(node, ast.Call):
        return _call(file, node, place.around)
    if isinstance(node, ast.Assign | ast.AugAssign | ast.AnnAssign):
        return _assigned(file, node)
    if isinstance(node, ast.Return) and SLOT.search(place.around.rpartition(".")[2]):
        return _holds(file, node.value)
    if isinstance(node, ast.Dict):
        return any(_slot(file, key, value) for key, value in zip(node.keys, node.values, strict=True))
    if isinstance(node, ast.JoinedStr | ast.BinOp):
        return _in_text(file, node)
    if isinstance(node, ast.Name | ast.Attribute):
        return not is_ours(file.name(node)) and _CLASSES.fullmatch(file.name(node)) is not None
    return False


def _call(file: File, call: ast.Call, around: str) -> bool:
    name = file.name(call.func)
    last = name.rpartition(".")[2] or getattr(call.func, "id", "")
    words = {word.arg or "": word.value for word in call.keywords}
    for arg, value in words.items():
        values = file.assigned.get((around, value.id), []) if isinstance(value, ast.Name) else []
        if any(_slot(file, ast.Constant(arg), one) for one in (value, *values)):
            return True
    given = [value for arg, value in words.items() if _GIVEN.fullmatch(arg) and not _is_none(value)]
    if given and name and not is_ours(name):
        return True
    if _SENT.fullmatch(last):
        return _holds(file, ast.Tuple(call.args)) or _holds(file, call)
    if _ADDED.fullmatch(last) and isinstance(call.func, ast.Attribute) and SLOT.search(_last(call.func.value)):
        return _holds(file, ast.Tuple(call.args)) or any(_holds(file, one) for one in call.args)
    return False


def _assigned(file: File, node: ast.Assign | ast.AugAssign | ast.AnnAssign) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        if isinstance(target, ast.Subscript):
            pair = ast.Tuple([target.slice, node.value or ast.Constant(None)])
            if SLOT.search(_last(target.value)) and _holds(file, pair):
                return True
            if _is_variable(file, target.slice):
                return True
        elif SLOT.search(_last(target)) and _holds(file, node.value):
            return True
    return False


def _holds(file: File, node: ast.expr | None) -> bool:
    """Whether what is sent holds a credential: in a dictionary, in a list of pairs, or in what one is made of."""
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return any(_is_credential(file, key, value) or (key is None and _holds(file, value)) for key, value in pairs)
    if isinstance(node, ast.List | ast.Tuple | ast.Set):
        first = node.elts[0] if node.elts else None
        is_pair = isinstance(node, ast.Tuple) and len(node.elts) > 1
        pair = is_pair and _is_credential(file, first, node.elts[1])
        return pair or any(_holds(file, one) or _carries(file, one) for one in node.elts)
    if isinstance(node, ast.BinOp):
        return _holds(file, node.left) or _holds(file, node.right)
    if isinstance(node, ast.IfExp | ast.Starred | ast.Await | ast.ListComp):
        inner = [getattr(node, name, None) for name in ("body", "orelse", "value", "elt")]
        return any(_holds(file, one) for one in inner if one is not None)
    if isinstance(node, ast.Call):
        given = ast.Dict([ast.Constant(word.arg) for word in node.keywords], [word.value for word in node.keywords])
        return _holds(file, given) or any(_holds(file, one) for one in node.args)
    return _carries(file, node)


def _is_credential(file: File, key: ast.expr | None, value: ast.expr) -> bool:
    return any(_is_named(text) for text in (*_texts(file, key), *_names(value)))


def _carries(file: File, node: ast.expr | None) -> bool:
    """Whether an expression is named as a credential."""
    return isinstance(node, ast.Name | ast.Attribute) and _is_named(_last(node))


def _in_text(file: File, node: ast.JoinedStr | ast.BinOp) -> bool:
    """Whether a text has a credential after the name of its scheme, or after the name under which it is sent, or has a
    user's password in an address."""
    before = ""
    for part in _parts(node):
        if isinstance(part, ast.Constant) and isinstance(part.value, str | bytes):
            before += part.value if isinstance(part.value, str) else part.value.decode("latin-1")
            continue
        if _SCHEME.search(before) or _PART.search(before):
            return True
        if _IN_ADDRESS.search(before) and _credential_in(part):
            return True
        before += "x"
    return False


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.JoinedStr):
        for one in node.values:
            yield one.value if isinstance(one, ast.FormattedValue) else one
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        yield from _parts(node.left)
        yield from _parts(node.right)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        text = node.left.value if isinstance(node.left, ast.Constant) else ""
        pieces = re.split(r"%[sdrb]", text.decode("latin-1") if isinstance(text, bytes) else str(text))
        values = node.right.elts if isinstance(node.right, ast.Tuple) else [node.right]
        for piece, value in zip(pieces, [*values, None], strict=False):
            yield ast.Constant(piece)
            if value is not None:
                yield value
    else:
        yield node


def _credential_in(node: ast.expr) -> bool:
    return any(_is_named(name) for name in _names(node))


def _slot(file: File, key: ast.expr | None, value: ast.expr) -> bool:
    """Whether a keyword, or a member of a dictionary, is what is sent along with a request, and holds a credential; or
    is a variable of the environment that is one."""
    texts = tuple(_texts(file, key))
    is_sent = any(_KEYWORDS.fullmatch(text) for text in texts) and (_holds(file, value) or _credential_in(value))
    return is_sent or any(_ENVIRONMENT.fullmatch(text) or _ALWAYS.fullmatch(text) for text in texts)


def _is_variable(file: File, key: ast.expr) -> bool:
    return any(_ENVIRONMENT.fullmatch(text) for text in _texts(file, key))


def _is_named(text: str) -> bool:
    return bool(NAMED.search(text.replace("_", "-"))) and not NO_CREDENTIAL.search(text)


def _names(node: ast.AST) -> Iterator[str]:
    """The names of what an expression is made of."""
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            yield one.id
        elif isinstance(one, ast.Attribute):
            yield one.attr


def _texts(file: File, node: ast.expr | None) -> Iterator[str]:
    """The texts that a key may be: its own, or that of the constant which it names."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
        yield node.value if isinstance(node.value, str) else node.value.decode("latin-1")
    elif isinstance(node, ast.Name):
        yield _constant(file.imported[node.id]) if node.id in file.imported else dict(_constants(file)).get(node.id, "")
    elif isinstance(node, ast.Attribute):
        yield _constant(file.name(node))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from _texts(file, node.func.value)


def _last(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


@cache
def _constant(name: str) -> str:
    """The text of a constant that ships, by its dotted name; empty if there is none."""
    module, _, last = name.rpartition(".")
    return next((dict(_constants(file)).get(last, "") for file in shipped() if file.module == module), "")


def _constants(file: File) -> Iterator[tuple[str, str]]:
    for node in file.tree.body:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            [target], value = node.targets, node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = list(zip(target.elts, value.elts, strict=False))
            for name, one in pairs:
                if isinstance(name, ast.Name) and isinstance(one, ast.Constant):
                    yield from ((name.id, text) for text in _texts(file, one))
