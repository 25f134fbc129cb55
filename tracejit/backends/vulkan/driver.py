"""The driver's calls: the `vulkan` package, its errors as exceptions, and which devices there are.

Structures are made by the package; functions are those of the library itself, as the package's own take twice the time
and some of them (vkGetBufferDeviceAddress) do not work.
"""

from __future__ import annotations

import threading
from typing import Any

from tracejit.support.errors import BackendUnavailable
from tracejit.support.nodes import frozen

__all__ = ["Found", "Vulkan", "VulkanError", "VulkanMemoryError", "found_devices", "loaded"]

_API = 1 << 22 | 2 << 12  # version 1.2: device addresses, timeline semaphores, 8-bit storage, the memory model
_NEWEST = ("vkGetBufferDeviceAddress", "vkWaitSemaphores", "vkGetSemaphoreCounterValue")  # functions of 1.2
_COMPUTE = 0x2  # VK_QUEUE_COMPUTE_BIT
_INSTALL = (
    "install a vendor's driver, or one that runs on the processor, on Debian and Ubuntu `apt install libvulkan1 "
    "mesa-vulkan-drivers`"
)
_MEMORY = {-1: "host memory", -2: "device memory", -10: "room for more allocations"}
"""What there is not enough of: VK_ERROR_OUT_OF_HOST_MEMORY, .._OUT_OF_DEVICE_MEMORY, .._TOO_MANY_OBJECTS."""
_CODES = {
    -3: "VK_ERROR_INITIALIZATION_FAILED", -4: "VK_ERROR_DEVICE_LOST", -5: "VK_ERROR_MEMORY_MAP_FAILED",
    -7: "VK_ERROR_EXTENSION_NOT_PRESENT", -8: "VK_ERROR_FEATURE_NOT_PRESENT", -9: "VK_ERROR_INCOMPATIBLE_DRIVER",
    -13: "VK_ERROR_UNKNOWN", -1000012000: "VK_ERROR_INVALID_SHADER_NV",
}  # fmt: skip
_NEEDED = {"shaderInt64": 0, "bufferDeviceAddress": 2, "timelineSemaphore": 2, "vulkanMemoryModel": 2}
"""Features without which there are no programs, and the version in whose structure they are (0: the first)."""
_OPTIONAL = {
    "shaderFloat64": 0, "shaderInt16": 0, "storageBuffer16BitAccess": 1, "shaderInt8": 2,
    "storageBuffer8BitAccess": 2, "shaderBufferInt64Atomics": 2, "shaderSharedInt64Atomics": 2,
}  # fmt: skip
_FLOATS = {
    "SignedZeroInfNanPreserve": "",
    "RoundingModeRTE": "roundingModeIndependence",
    "DenormPreserve": "denormBehaviorIndependence",
}
"""What may be asked for of floats, and what says of how many widths (VkPhysicalDeviceFloatControlsProperties)."""
_INDEPENDENT = {0: (32,), 1: (32, 64), 2: ()}
"""For which widths that may be asked for alone: VkShaderFloatControlsIndependence."""


class VulkanError(Exception):
    """A call has failed."""


class VulkanMemoryError(VulkanError):
    """There is no memory left."""


class Vulkan:
    """The library and an instance of it.

    Raises: BackendUnavailable, saying what to install.
    """

    def __init__(self) -> None:
        try:
            import vulkan
        except (ImportError, OSError) as error:  # without the loader, importing the package is an OSError
            package = isinstance(error, ImportError)
            what = "the package vulkan: pip install 'tracejit[vulkan]'" if package else f"the Vulkan loader: {_INSTALL}"
            raise BackendUnavailable(f"the vulkan backend needs {what} ({error})") from error
        self.vk: Any = vulkan
        self.ffi: Any = self.vk.ffi
        self.lib: Any = self.vk._vulkan.lib
        missing = [name for name in _NEWEST if not hasattr(self.lib, name)]
        if missing:
            raise BackendUnavailable(f"the Vulkan loader is older than version 1.2 (it has no {', '.join(missing)})")
        application = self.vk.VkApplicationInfo(apiVersion=_API)
        try:
            self.instance = self.made("vkCreateInstance", self.vk.VkInstanceCreateInfo(pApplicationInfo=application))
        except VulkanError as error:
            raise BackendUnavailable(f"there is no Vulkan driver: {_INSTALL} ({error})") from error

    def check(self, name: str, code: int) -> int:
        """Raises VulkanError or VulkanMemoryError for a code that is an error."""
        if code >= 0:
            return code
        if code in _MEMORY:
            raise VulkanMemoryError(f"{name}: there is not enough {_MEMORY[code]}")
        raise VulkanError(f"{name}: {_CODES.get(code, f'error {code}')}")

    def call(self, name: str, *arguments: Any) -> int:
        """Call a function of the library."""
        return self.check(name, getattr(self.lib, name)(*arguments))

    def made(self, name: str, info: Any, *owner: Any) -> Any:
        """What a function vkCreate..., or vkAllocateMemory, makes of a structure."""
        kind = name.removeprefix("vkCreate").replace("vkAllocateMemory", "DeviceMemory")
        out = self.ffi.new(f"Vk{kind} *")
        self.call(name, *owner, self.ffi.addressof(info), self.ffi.NULL, out)
        return out[0]

    def devices(self) -> list[Any]:
        """The handles of all devices."""
        count = self.ffi.new("uint32_t *")
        self.call("vkEnumeratePhysicalDevices", self.instance, count, self.ffi.NULL)
        out = self.ffi.new("VkPhysicalDevice[]", count[0])
        self.call("vkEnumeratePhysicalDevices", self.instance, count, out)
        return list(out)

    def compute_family(self, device: Any) -> int | None:
        """The first family of queues that take kernels."""
        count = self.ffi.new("uint32_t *")
        self.lib.vkGetPhysicalDeviceQueueFamilyProperties(device, count, self.ffi.NULL)
        families = self.ffi.new("VkQueueFamilyProperties[]", count[0])
        self.lib.vkGetPhysicalDeviceQueueFamilyProperties(device, count, families)
        return next((n for n in range(count[0]) if families[n].queueFlags & _COMPUTE), None)


@frozen(eq=False)
class Found:
    """A device that programs can run on: its handle, what the driver says of it, and its queue.

    kind: VkPhysicalDeviceType.  features: those of `_NEEDED` and `_OPTIONAL` that it has.  floats: those of `_FLOATS`,
    with their widths, as "RoundingModeRTE32".  family: of its queue.  group, shared, groups: as in
    `target.Capabilities`.  largest: bytes of one allocation.
    """

    vulkan: Vulkan
    handle: Any
    name: str
    driver: str
    kind: int
    features: frozenset[str]
    floats: frozenset[str]
    family: int
    group: int
    shared: int
    groups: int
    largest: int

    @property
    def software(self) -> bool:
        """Whether it is the host's processor."""
        return self.kind == 4

    @property
    def shares_memory(self) -> bool:
        """Whether its memory is the host's."""
        return self.kind in (1, 4)

    def feature_chain(self) -> Any:
        """The structure that asks for these features."""
        vk = self.vulkan.vk
        first, second, third = (
            {n: 1 for n, v in (_NEEDED | _OPTIONAL).items() if v == version and n in self.features}
            for version in (0, 1, 2)
        )
        chain = vk.VkPhysicalDeviceVulkan12Features(**third)
        chain = vk.VkPhysicalDeviceVulkan11Features(pNext=chain, **second)
        return vk.VkPhysicalDeviceFeatures2(pNext=chain, features=vk.VkPhysicalDeviceFeatures(**first))


_lock = threading.Lock()
_loaded: list[Vulkan] = []


def loaded() -> Vulkan:
    """The library, loaded once a process.  Raises BackendUnavailable."""
    with _lock:
        if not _loaded:
            _loaded.append(Vulkan())
        return _loaded[0]


def found_devices() -> list[Found]:
    """The devices that programs can run on, real ones before software ones.  Raises BackendUnavailable."""
    vulkan = loaded()
    refused: list[str] = []
    found: list[Found] = []
    try:
        handles = vulkan.devices()
    except VulkanError as error:
        raise BackendUnavailable(f"the Vulkan drivers of this machine list no devices ({error})") from error
    for handle in handles:
        one = _examined(vulkan, handle)
        if isinstance(one, Found):
            found.append(one)
        else:
            refused.append(one)
    if not found:
        raise BackendUnavailable(
            "no Vulkan device can run programs: " + ("; ".join(refused) or f"there is none; {_INSTALL}")
        )
    return sorted(found, key=lambda d: (d.software, d.kind != 2))


def _examined(vulkan: Vulkan, handle: Any) -> Found | str:
    """A device, or in words why it cannot be used."""
    vk, ffi, lib = vulkan.vk, vulkan.ffi, vulkan.lib
    floats = vk.VkPhysicalDeviceFloatControlsProperties()
    sizes = vk.VkPhysicalDeviceMaintenance3Properties(pNext=floats)
    driver = vk.VkPhysicalDeviceDriverProperties(pNext=sizes)
    properties = vk.VkPhysicalDeviceProperties2(pNext=driver)
    lib.vkGetPhysicalDeviceProperties(handle, ffi.addressof(properties, "properties"))
    name = ffi.string(properties.properties.deviceName).decode()
    if properties.properties.apiVersion < _API:
        return f"{name} has no Vulkan 1.2"
    lib.vkGetPhysicalDeviceProperties2(handle, ffi.addressof(properties))
    newer = vk.VkPhysicalDeviceVulkan12Features()
    new = vk.VkPhysicalDeviceVulkan11Features(pNext=newer)
    features = vk.VkPhysicalDeviceFeatures2(pNext=new)
    lib.vkGetPhysicalDeviceFeatures2(handle, ffi.addressof(features))
    holders = (features.features, new, newer)
    has = frozenset(n for n, version in (_NEEDED | _OPTIONAL).items() if getattr(holders[version], n))
    missing = [n for n in _NEEDED if n not in has]
    if missing:
        return f"{name} has no {', '.join(missing)}"
    family = vulkan.compute_family(handle)
    if family is None:
        return f"{name} has no queue for compute"
    about = f"{ffi.string(driver.driverName).decode()} {ffi.string(driver.driverInfo).decode()}"
    limits = properties.properties.limits
    return Found(
        vulkan,
        handle,
        name,
        about,
        properties.properties.deviceType,
        has,
        frozenset(
            f"{what}{bits}"
            for what, independence in _FLOATS.items()
            for bits in (_INDEPENDENT[getattr(floats, independence)] if independence else (32, 64))
            if getattr(floats, f"shader{what}Float{bits}")
        ),
        family,
        min(limits.maxComputeWorkGroupInvocations, limits.maxComputeWorkGroupSize[0]),
        int(limits.maxComputeSharedMemorySize),
        int(limits.maxComputeWorkGroupCount[0]),
        int(sizes.maxMemoryAllocationSize),
    )
