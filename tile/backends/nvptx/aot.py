"""A kernel for C programs: a cubin, and a header that loads and launches it by the driver."""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import jinja2

from tile.backends.base import Artifact
from tile.backends.capabilities import ExportedParameter
from tile.backends.nvptx import ptxas
from tile.backends.nvptx.aot_maps import c_map
from tile.backends.nvptx.architectures import PORTABLE_CLUSTER, has_clusters, has_dependent_launches
from tile.backends.nvptx.launch_metadata import MAP_STRIDE, LaunchMetadata
from tile.backends.nvptx.target import architecture
from tile.errors import BackendError
from tile.ir.types import Kind, Pointer, Scalar
from tile.tracebacks import warn

# Names that parameters cannot have in C: its keywords, and names that the header uses.
_KEYWORDS = """
auto bool break case catch char class const constexpr continue default delete do double else enum
explicit export extern false float for friend goto if inline int long mutable namespace new operator
private protected public register restrict return short signed sizeof static struct switch template
this throw true try typedef typename union unsigned using virtual void volatile while
"""
_HEADER_NAMES = """
kernel arguments stream grid_x grid_y grid_z maps encoded extents strides box
"""
_RESERVED = frozenset([*_KEYWORDS.split(), *_HEADER_NAMES.split()])


def c_type(ty: Scalar | Pointer) -> str:
    """Return the C type of an argument. Floats that C lacks are passed as their bits."""
    if isinstance(ty, Pointer):
        return "CUdeviceptr"
    if ty.kind is Kind.FLOAT and ty.bits >= 32:
        return "float" if ty.bits == 32 else "double"
    if ty.kind is Kind.INT and not ty.alias.startswith("u"):
        return f"int{ty.bits}_t"
    return f"uint{ty.storage_bits}_t"


def _remark(parameter: ExportedParameter) -> str:
    """Return a remark on an argument for callers."""
    parts = [f"{_c_name(parameter.name)}: {_description(parameter.type)}"]
    if parameter.divisible > 1:
        noun = "an address" if isinstance(parameter.type, Pointer) else "a number"
        parts.append(f"{noun} divisible by {parameter.divisible}")
    if parameter.noalias:
        parts.append("memory not written through another argument")
    return ", ".join(parts)


def _description(ty: Scalar | Pointer) -> str:
    if isinstance(ty, Pointer):
        return f"the address on the device of {_description(ty.pointee)}"
    return f"{ty.alias} as its bits" if ty.kind is Kind.FLOAT and ty.bits < 32 else ty.alias


class _Form(NamedTuple):
    """A form of the kernel in the header: with tensor maps, or the only one; or without them."""

    artifact: Artifact
    cubin: bytes | None
    prefix: str = ""

    def variables(self, name: str) -> dict[str, Any]:
        """Return the variables of the template; `name` is the prefix of the header's names."""
        metadata = LaunchMetadata.of(self.artifact.launch_metadata)
        name += f"_{self.prefix}".removesuffix("_")
        other = "PTX, which the driver compiles for other architectures"
        images = [("ptx", other, _words(_ptx(self.artifact).encode() + b"\0"))]
        if self.cubin is not None:
            images.insert(0, ("cubin", "machine code for the architecture", _words(self.cubin)))
        return {
            "name": name,
            "NAME": name.upper(),
            "prefix": self.prefix,
            "threads": metadata.threads,
            "shared": metadata.shared_bytes,
            "images": images,
        }


def files(
    artifact: Artifact,
    plain: Artifact | None,
    name: str,
    parameters: Sequence[ExportedParameter],
) -> dict[str, str | bytes]:
    """Return the header, and the cubin if ptxas is installed, by file extension.

    plain: the form without tensor maps of a kernel that has some. name: the prefix of the header's
    functions.
    """
    contents, forms = dict[str, str | bytes](), list[_Form]()
    program = ptxas.find()
    for each, prefix in ((plain, "plain_"), (artifact, "")):
        if each is None:
            continue
        cubin = None
        if program is not None:
            try:
                cubin, report = ptxas.assemble(_ptx(each), each.target.arch, program)
                contents |= {"cubin": cubin, "ptxas": report}
            except BackendError as error:  # such as a ptxas that has dropped old architectures
                warn(f"the header has PTX alone, which the driver compiles: {error}")
        forms.insert(0, _Form(each, cubin, prefix))
    contents["h"] = _header(forms, name, parameters)
    return contents


def _ptx(artifact: Artifact) -> str:
    ptx = artifact.stages["ptx"]
    assert isinstance(ptx, str)
    return ptx


@functools.cache
def _template() -> jinja2.Template:
    """Return `kernel.h.jinja`, with variables as `@x@` and statements as `/*% if x %*/`."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        variable_start_string="@",
        variable_end_string="@",
        block_start_string="/*%",
        block_end_string="%*/",
        trim_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template("kernel.h.jinja")


def _header(forms: Sequence[_Form], name: str, parameters: Sequence[ExportedParameter]) -> str:
    """Return the text of the header: the images, and functions to load, launch and unload them."""
    artifact = forms[0].artifact
    metadata = LaunchMetadata.of(artifact.launch_metadata)
    name = re.sub(r"\W", "_", name)
    names = [_c_name(p.name) for p in parameters]
    arguments = [f"{c_type(p.type)} {n}" for p, n in zip(parameters, names, strict=True)]
    cooperative = artifact.options.launch_cooperative_grid
    capability = architecture(artifact.target.arch).capability
    return _template().render(
        name=name,
        NAME=name.upper(),
        guard=f"TILE_{name.upper()}_H",
        symbol=metadata.kernel,
        arch=artifact.target.arch,
        threads=metadata.threads,
        shared=metadata.shared_bytes,
        forms=[form.variables(name) for form in forms],
        maps=[c_map(each, names) for each in metadata.maps],
        stride=MAP_STRIDE,
        remarks=list(map(_remark, parameters)),
        asserts=bool(metadata.assertions),
        cluster=artifact.options.num_ctas if has_clusters(capability) else 1,
        portable=PORTABLE_CLUSTER,
        gathers=metadata.gathers,
        declarations="".join(f",\n    {argument}" for argument in arguments),
        addresses="".join(f"&{n}, " for n in names),
        cooperative=cooperative,
        dependent=artifact.options.launch_pdl
        and has_dependent_launches(capability)
        and not cooperative,
        call="cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel",
        extra="" if cooperative else ", NULL",
    )


def _words(image: bytes) -> list[str]:
    """Return an image as 64-bit words, which align it, in the hosts' byte order."""
    padded = image.ljust(-(-len(image) // 8) * 8, b"\0")
    return [f"{word:#x}," for (word,) in struct.iter_unpack("<Q", padded)]


def _c_name(name: str) -> str:
    """Return a parameter's name, with an underscore appended if C or the header reserves it."""
    return f"{name}_" if name in _RESERVED else name
