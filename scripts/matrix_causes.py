"""Why the choice of a cell of scripts/matrix.py is below its bar: a cause is an ablation that ran and took the cell to the bar; else it is unknown.

`auto` begins with a guess for each layer and changes from there. So these run beside it, in this order, and the first that comes to the bar is named:

    no charge for the processor     the work of its shadows takes processors that programs want
    the first guess, and no change  what it changed to is slower than what it had
    the first guess without a part  that part is what is slow there, of several the one without which the cell is fastest
    one layer alone                 the guess of the other
"""

# What `auto` begins with (crates/core/src/policy/auto.rs): in the cache of an array by heads and members, and in a page cache.
# Where no head moves `auto` has `recall` in the array's cache as well, which no name of a fixed scheme says beside that of the page cache.
ONE_DISK, DISKS = ["grain", "early"], ["grain", "msp", "early"]
HOST = ["stride(gaps=off)", "regions(linux-6)", "recall"]
NO_CPU = "none"


def first_guess(cell, mechanical):
    """Parts of the array's scheme and of the page cache's."""
    return (ONE_DISK if cell.array == "single" and cell.device in mechanical else DISKS), HOST


def without(parts):
    """Each part that can be left out, and the scheme without it; `early` and `msp` stand on what they are beside."""
    for part in parts:
        left = [other for other in parts if other != part]
        if part == "grain":
            left = [other for other in left if other in HOST]
        yield part, "+".join(left) or "none"


def ablations(cell, mechanical):
    """Schemes beside `auto` that have to run for a cell."""
    array, host = first_guess(cell, mechanical)
    whole = [*array, *host]
    return ["+".join(whole), *(scheme for _, scheme in without(whole)), "+".join(array), "+".join(host)]


def cause(cell, mechanical, bar, choice, speed):
    """In words; `speed(scheme)`, with a charge for processors where it is another than the usual, is over what the bar is of, or None where it could not run."""
    told = lambda value: f"{value:.2f}"
    reaches = lambda value: value is not None and value >= bar
    if reaches(idle := speed(choice, NO_CPU)):
        return f"processor time: {told(idle)} without a charge for it"
    array, host = first_guess(cell, mechanical)
    whole = [*array, *host]
    first = speed("+".join(whole))
    if reaches(first):
        return f"its changes: the first guess alone has {told(first)}"
    better = [(value, part) for part, scheme in without(whole) if reaches(value := speed(scheme))]
    if better:
        value, part = max(better)
        return f"{part} of its first guess: {told(value)} without it"
    for kept, parts, layer in ((array, host, "page cache's"), (host, array, "array's")):
        if reaches(value := speed("+".join(kept))):
            return f"the {layer} first guess ({'+'.join(parts)}): {told(value)} without it"
    refused = sum(speed(scheme) is None for scheme in ablations(cell, mechanical)) + (idle is None)
    return "unknown" + (f"; the first guess alone has {told(first)}" if first is not None else "") + (f"; {refused} ablations could not run" if refused else "")
