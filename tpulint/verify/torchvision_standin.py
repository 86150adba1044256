"""torchvision on a torch that its compiled operators do not load into.

torchvision's wheels on PyPI are built for CUDA torch. On CPU torch neither `_C.so` nor `image.so` loads,
and `import torchvision` fails altogether, because it registers details of operators that do not exist.

Real here: all of torchvision's Python (transforms, resize, blur, models), on torch's own operators; and
where `torchvision_decoders` can load them, the image operators.
Standing in: `torchvision::nms` by a plain loop; and where the image operators cannot be loaded, PIL and
numpy for `image::read_file`, `write_file`, `decode_image`, `decode_png`, `decode_jpeg`, `decode_gif`,
`decode_webp`, `encode_png` and `encode_jpeg`.
Their values are those of the real decoders, save for 16 bit files (refused), alpha added to a palette or to
1 bit, CMYK left as it is, and grey made of coloured PNGs that state a gamma; JPEG's may differ by a level,
since libjpeg differs.
The other compiled operators (`roi_align`, `deform_conv2d`, ...) are declared only: calling one raises
NotImplementedError, from torch.

It acts only where the compiled extension does not load; where it does, everything is the real thing.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import torch

from tpulint.verify import torchvision_decoders

_IMAGE_SCHEMAS = (
    "read_file(str filename) -> Tensor",
    "write_file(str filename, Tensor data) -> ()",
    "decode_image(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor",
    "decode_png(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor",
    "decode_jpeg(Tensor data, int mode, bool apply_exif_orientation=False) -> Tensor",
    "decode_webp(Tensor encoded_data, int mode) -> Tensor",
    "decode_gif(Tensor data) -> Tensor",
    "encode_png(Tensor data, int compression_level) -> Tensor",
    "encode_jpeg(Tensor data, int quality) -> Tensor",
)
_ROI = "Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_ROI_GRAD = "float spatial_scale, SymInt pooled_height, SymInt pooled_width"
_SIZES = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
_DEFORM = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w,"
    " SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups,"
    " bool use_mask"
)
_VISION_SCHEMAS = (
    "_cuda_version() -> int",
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "box_iou_rotated(Tensor boxes1, Tensor boxes2) -> Tensor",
    f"roi_align({_ROI}, int sampling_ratio, bool aligned) -> Tensor",
    (
        f"_roi_align_backward(Tensor grad, Tensor rois, {_ROI_GRAD}, {_SIZES}, int sampling_ratio,"
        " bool aligned) -> Tensor"
    ),
    (
        "qroi_align(Tensor input, Tensor rois, float input_scale, int input_zero_point, float rois_scale,"
        " int rois_zero_point, float spatial_scale, SymInt pooled_height, SymInt pooled_width,"
        " int sampling_ratio, bool aligned) -> Tensor"
    ),
    f"roi_pool({_ROI}) -> (Tensor, Tensor)",
    f"_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, {_ROI_GRAD}, {_SIZES}) -> Tensor",
    f"ps_roi_align({_ROI}, int sampling_ratio) -> (Tensor, Tensor)",
    (
        f"_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_ROI_GRAD},"
        f" int sampling_ratio, {_SIZES}) -> Tensor"
    ),
    f"ps_roi_pool({_ROI}) -> (Tensor, Tensor)",
    (
        f"_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, {_ROI_GRAD}, {_SIZES})"
        " -> Tensor"
    ),
    f"deform_conv2d({_DEFORM}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {_DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)

# By torchvision.io.ImageReadMode's numbers; 0 keeps the file's own form.
_PIL_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}

used: set[str] = set()
"""The operators that were stood in for in this process: a run under torchax proves nothing of the real ones,
some of which crash there."""

# A library's operators vanish with it.
_kept: list[Any] = []


def install() -> None:
    """From now on, importing torchvision works; to be called before the code under study runs."""
    if "torchvision" not in sys.modules and not any(isinstance(f, _Finder) for f in sys.meta_path):
        # Found out now, since this forks, and the code under study may start threads.
        torchvision_decoders.work()
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder):
    """Notices the first import of torchvision, and leaves the import itself to the others."""

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            _catch_failing_libraries()
        return None


def _catch_failing_libraries() -> None:
    """Have `torch.ops.load_library` declare stand-ins where a library of torchvision does not load."""
    load: Callable[[str], None] = torch.ops.load_library

    def load_or_declare(path: str) -> None:
        declare = {"_C.so": _declare_vision, "image.so": _declare_image}.get(Path(path).name)
        if declare is None or "torchvision" not in Path(path).parts:
            return load(path)
        with contextlib.suppress(OSError):
            return load(path)
        if declare is _declare_image and torchvision_decoders.work():
            with contextlib.suppress(OSError, ValueError):
                return torchvision_decoders.load(Path(path))
        return declare()

    torch.ops.load_library = load_or_declare


def _declare_vision() -> None:
    library = torch.library.Library("torchvision", "DEF")
    for schema in _VISION_SCHEMAS:
        library.define(schema)
    # -1 is what a build without CUDA answers: nothing to compare versions with.
    library.impl("_cuda_version", lambda: -1, "CompositeExplicitAutograd")
    library.impl("nms", _noted("nms", _nms), "CPU")
    _kept.append(library)


def _declare_image() -> None:
    library = torch.library.Library("image", "DEF")
    for schema in _IMAGE_SCHEMAS:
        library.define(schema)
    # Reading has no tensor argument from which torch could tell a backend.
    library.impl("read_file", _noted("read_file", _read_file), "CompositeExplicitAutograd")
    kernels: dict[str, Callable[..., Any]] = {
        **dict.fromkeys(("decode_image", "decode_png", "decode_jpeg", "decode_webp"), _decode),
        "decode_gif": _decode_gif,
        "write_file": _write_file,
        "encode_png": _encode_png,
        "encode_jpeg": _encode_jpeg,
    }
    for name, kernel in kernels.items():
        library.impl(name, _noted(name, kernel), "CPU")
    _kept.append(library)


def _noted(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    def noted(*args: Any) -> Any:
        used.add(name)
        return kernel(*args)

    return noted


def _nms(dets: torch.Tensor, scores: torch.Tensor, iou_threshold: float) -> torch.Tensor:
    x1, y1, x2, y2 = dets.unbind(1)
    areas = (x2 - x1) * (y2 - y1)
    order = scores.argsort(descending=True, stable=True)
    kept: list[int] = []
    while order.numel():
        best, rest = order[0], order[1:]
        kept.append(int(best))
        width = (torch.minimum(x2[best], x2[rest]) - torch.maximum(x1[best], x1[rest])).clamp(min=0)
        height = (torch.minimum(y2[best], y2[rest]) - torch.maximum(y1[best], y1[rest])).clamp(min=0)
        overlap = width * height
        order = rest[overlap / (areas[best] + areas[rest] - overlap) <= iou_threshold]
    return torch.tensor(kept, dtype=torch.int64)


def _read_file(filename: str) -> torch.Tensor:
    try:
        content = Path(filename).read_bytes()
    except OSError as error:
        # As the compiled operator words it; callers catch RuntimeError.
        raise RuntimeError(f"[Errno {error.errno}] {error.strerror}: '{filename}'") from None
    return torch.frombuffer(bytearray(content), dtype=torch.uint8)


def _write_file(filename: str, data: torch.Tensor) -> None:
    Path(filename).write_bytes(data.numpy().tobytes())


def _open(data: torch.Tensor) -> Any:
    from PIL import Image, UnidentifiedImageError

    try:
        return Image.open(io.BytesIO(data.numpy().tobytes()))
    except UnidentifiedImageError:
        raise RuntimeError("Unsupported image file. Only jpeg, png, webp and gif are supported.") from None


def _tensor(picture: Any) -> torch.Tensor:
    """Channels first, and last in memory, as the real decoders have it."""
    import numpy as np

    return torch.from_numpy(np.atleast_3d(np.array(picture))).permute(2, 0, 1)


def _decode(data: torch.Tensor, mode: int, apply_exif_orientation: bool = False) -> torch.Tensor:
    from PIL import ImageOps

    picture = _open(data)
    wanted = _PIL_MODES.get(mode)
    if picture.format == "JPEG":
        if wanted in ("LA", "RGBA"):
            raise RuntimeError("The provided mode is not supported for JPEG files")
        if wanted == "L":
            # libjpeg then hands over the brightness that the file holds, as torchvision has it do.
            picture.draft("L", None)
    if picture.format == "GIF":
        return _decode_gif(data)
    if picture.format == "WEBP" and wanted in ("L", "LA"):
        # As it is, with a warning: the real decoder makes no grey of it.
        wanted = None
    if apply_exif_orientation:
        picture = ImageOps.exif_transpose(picture)
    if picture.mode == "1":
        picture = picture.convert("L")
    if picture.mode.startswith("I"):
        raise NotImplementedError("16 bit pictures are not decoded without torchvision's own operators")
    if wanted is None:
        # A palette's picture comes as indices, as the real decoder has it.
        return _tensor(picture)
    if picture.mode == "P":
        picture = picture.convert("RGBA" if "transparency" in picture.info else "RGB")
    if wanted in ("L", "LA") and picture.mode in ("RGB", "RGBA"):
        return _gray(_tensor(picture), with_alpha=wanted == "LA")
    return _tensor(picture if picture.mode == wanted else picture.convert(wanted))


def _gray(pixels: torch.Tensor, *, with_alpha: bool) -> torch.Tensor:
    """Grey as libpng makes it of 0.2989 red and 0.587 green, in 32768ths, rounded down; PIL differs."""
    red, green, blue = pixels[:3].to(torch.int64)
    gray = ((9794 * red + 19234 * green + 3740 * blue) >> 15).to(torch.uint8)
    if not with_alpha:
        return gray[None]
    alpha = pixels[3] if pixels.shape[0] == 4 else torch.full_like(gray, 255)
    return torch.stack([gray, alpha], dim=-1).permute(2, 0, 1)


def _decode_gif(data: torch.Tensor) -> torch.Tensor:
    from PIL import ImageSequence

    frames = [_tensor(frame.convert("RGB")) for frame in ImageSequence.Iterator(_open(data))]
    return frames[0] if len(frames) == 1 else torch.stack(frames)


def _encode(data: torch.Tensor, form: str, **options: int) -> torch.Tensor:
    from PIL import Image

    pixels = data.permute(1, 2, 0).numpy()
    stream = io.BytesIO()
    Image.fromarray(pixels[..., 0] if pixels.shape[2] == 1 else pixels).save(stream, form, **options)
    return torch.frombuffer(bytearray(stream.getvalue()), dtype=torch.uint8)


def _encode_png(data: torch.Tensor, compression_level: int) -> torch.Tensor:
    return _encode(data, "PNG", compress_level=compression_level)


def _encode_jpeg(data: torch.Tensor, quality: int) -> torch.Tensor:
    return _encode(data, "JPEG", quality=quality)
