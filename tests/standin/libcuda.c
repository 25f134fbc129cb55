/* A stand-in for NVIDIA's libcuda.so.1: the driver API on host memory, for machines without a GPU.

   Modules are given to callbacks that parse and run PTX (tests/standin/cuda.py). What real drivers notice and this one
   models: calls before cuInit or without a context, handles that do not exist, copies outside of what is allocated, double
   frees, memory that runs out, and faults of kernels, which later calls report until the context is reset.

   Settings are read from the environment when the library is loaded, and may be changed by standin_set:
     TRACEJIT_STANDIN_DEVICES        number of devices (1)
     TRACEJIT_STANDIN_CAPABILITY     compute capability, times ten (80)
     TRACEJIT_STANDIN_MEMORY         bytes of each device (1 GiB)
     TRACEJIT_STANDIN_FAIL_LAUNCH    the launch, counted from 1, at which the device is lost (0: none)
     TRACEJIT_STANDIN_SYNCHRONOUS    faults of kernels are reported by the launch itself, not by what follows (0)
     TRACEJIT_STANDIN_VERSION        of the driver (13000) */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int CUresult;
typedef int CUdevice;
typedef uint64_t CUdeviceptr;

enum {
    SUCCESS = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    NOT_READY = 600,
    LAUNCH_FAILED = 719,
    NOT_SUPPORTED = 801,
};

/* Device addresses are host addresses with this bit: the host that uses one by mistake faults, as it does with a GPU. */
#define DEVICE_BIT (1ull << 47)
#define ALIGNMENT 256
#define MAX_DEVICES 8
#define MAX_DEPTH 64
#define KEPT_FREED 256

/* ---- settings and counters ---- */

typedef struct {
    const char *name;
    const char *variable;
    long long value;
} Setting;

enum { DEVICES, CAPABILITY, MEMORY, FAIL_LAUNCH, SYNCHRONOUS, VERSION, SETTINGS };
static Setting settings[SETTINGS] = {
    {"devices", "TRACEJIT_STANDIN_DEVICES", 1},
    {"capability", "TRACEJIT_STANDIN_CAPABILITY", 80},
    {"memory", "TRACEJIT_STANDIN_MEMORY", 1ll << 30},
    {"fail_launch", "TRACEJIT_STANDIN_FAIL_LAUNCH", 0},
    {"synchronous", "TRACEJIT_STANDIN_SYNCHRONOUS", 0},
    {"version", "TRACEJIT_STANDIN_VERSION", 13000},
};

enum {
    LAUNCHES, ALLOCATIONS, FREES, TO_DEVICE, TO_HOST, ON_DEVICE, BYTES_TO_DEVICE, BYTES_TO_HOST, BYTES_ON_DEVICE, MEMSETS,
    SYNCHRONIZATIONS, MODULES, FAULTS, IN_USE, PEAK, COUNTERS
};
static const char *counter_names[COUNTERS] = {
    "launches", "allocations", "frees", "to_device", "to_host", "on_device", "bytes_to_device", "bytes_to_host",
    "bytes_on_device", "memsets", "synchronizations", "modules", "faults", "in_use", "peak",
};
static long long counters[COUNTERS];

static char fault_text[512];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Notes what the user of the driver has done wrong, for the test to show. */
static CUresult fault(CUresult code, const char *text) {
    pthread_mutex_lock(&lock);
    counters[FAULTS]++;
    snprintf(fault_text, sizeof fault_text, "%s", text);
    pthread_mutex_unlock(&lock);
    return code;
}

__attribute__((constructor)) static void read_environment(void) {
    for (int i = 0; i < SETTINGS; i++) {
        const char *text = getenv(settings[i].variable);
        if (text && *text) settings[i].value = atoll(text);
    }
}

int standin_set(const char *name, long long value) {
    for (int i = 0; i < SETTINGS; i++)
        if (!strcmp(settings[i].name, name)) {
            settings[i].value = value;
            return 0;
        }
    return -1;
}

long long standin_setting(const char *name) {
    for (int i = 0; i < SETTINGS; i++)
        if (!strcmp(settings[i].name, name)) return settings[i].value;
    return -1;
}

long long standin_counter(const char *name) {
    for (int i = 0; i < COUNTERS; i++)
        if (!strcmp(counter_names[i], name)) return counters[i];
    return -1;
}

const char *standin_fault(void) { return fault_text; }

/* ---- callbacks ---- */

typedef struct {
    long long parameters, static_shared, local, threads;
} Kernel;
typedef CUresult (*LoadCallback)(uint64_t module, const char *text, char *log, size_t log_size);
typedef void (*UnloadCallback)(uint64_t module);
typedef CUresult (*KernelCallback)(uint64_t module, const char *name, Kernel *out, int *offsets, int *sizes, int room);
typedef CUresult (*SymbolCallback)(uint64_t module, const char *name, CUdeviceptr *address, size_t *size);
typedef CUresult (*LaunchCallback)(
    uint64_t module, const char *name, const unsigned *extents, unsigned shared, const void *parameters, size_t size);

static LoadCallback on_load;
static UnloadCallback on_unload;
static KernelCallback on_kernel;
static SymbolCallback on_symbol;
static LaunchCallback on_launch;

void standin_callbacks(
    LoadCallback load, UnloadCallback unload, KernelCallback kernel, SymbolCallback symbol, LaunchCallback launch) {
    on_load = load;
    on_unload = unload;
    on_kernel = kernel;
    on_symbol = symbol;
    on_launch = launch;
}

/* ---- handles: memory with a mark, so that what is no handle or was destroyed is noticed ---- */

enum { CONTEXT = 0x43545854, STREAM = 0x5354524d, EVENT = 0x45564e54, MODULE = 0x4d4f444c, FUNCTION = 0x46554e43 };

typedef struct Handle {
    int mark;
    struct Handle *next;
} Handle;
static Handle *handles;

static void *new_handle(int mark, size_t size) {
    Handle *made = calloc(1, size);
    made->mark = mark;
    pthread_mutex_lock(&lock);
    made->next = handles;
    handles = made;
    pthread_mutex_unlock(&lock);
    return made;
}

static int is_handle(const void *handle, int mark) {
    int found = 0;
    pthread_mutex_lock(&lock);
    for (Handle *h = handles; h && !found; h = h->next) found = h == handle && h->mark == mark;
    pthread_mutex_unlock(&lock);
    return found;
}

/* The memory stays: an address is never given twice. */
static CUresult destroy_handle(void *handle, int mark) {
    if (!is_handle(handle, mark)) return fault(INVALID_HANDLE, "a handle is destroyed that does not exist");
    ((Handle *)handle)->mark = 0;
    return SUCCESS;
}

/* ---- devices and contexts ---- */

typedef struct {
    Handle handle;
    CUdevice device;
    CUresult lost; /* what a kernel has done: every later call fails with it */
    int references;
} Context;

static int initialized;
static Context *primary[MAX_DEVICES];
static __thread Context *stack[MAX_DEPTH];
static __thread int depth;

#define CHECK_INITIALIZED                                \
    if (!initialized) return fault(NOT_INITIALIZED, "a call before cuInit")
#define CHECK_DEVICE(device)                             \
    CHECK_INITIALIZED;                                   \
    if ((device) < 0 || (device) >= settings[DEVICES].value) return INVALID_DEVICE
#define CHECK_CONTEXT                                                                       \
    CHECK_INITIALIZED;                                                                      \
    if (!depth || !stack[depth - 1]) return fault(INVALID_CONTEXT, "a call without a context"); \
    if (stack[depth - 1]->lost) return stack[depth - 1]->lost

CUresult cuInit(unsigned flags) {
    if (flags) return INVALID_VALUE;
    if (settings[DEVICES].value < 1) return NO_DEVICE;
    initialized = 1;
    return SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
    *version = (int)settings[VERSION].value;
    return SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
    CHECK_INITIALIZED;
    *count = (int)settings[DEVICES].value;
    return SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    CHECK_DEVICE(ordinal);
    *device = ordinal;
    return SUCCESS;
}

CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
    CHECK_DEVICE(device);
    snprintf(name, (size_t)size, "tracejit stand-in %d", device);
    return SUCCESS;
}

CUresult cuDeviceGetUuid_v2(unsigned char *uuid, CUdevice device) {
    CHECK_DEVICE(device);
    memset(uuid, 0x5a, 16);
    uuid[15] = (unsigned char)device;
    return SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device) {
    CHECK_DEVICE(device);
    *major = (int)(settings[CAPABILITY].value / 10);
    *minor = (int)(settings[CAPABILITY].value % 10);
    return SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *size, CUdevice device) {
    CHECK_DEVICE(device);
    *size = (size_t)settings[MEMORY].value;
    return SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice device) {
    CHECK_DEVICE(device);
    snprintf(text, (size_t)size, "0000:%02x:00.0", device + 1);
    return SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *device, const char *text) {
    CHECK_INITIALIZED;
    int number = 0;
    if (sscanf(text, "0000:%x:00.0", &number) != 1) return INVALID_VALUE;
    CHECK_DEVICE(number - 1);
    *device = number - 1;
    return SUCCESS;
}

/* CUdevice_attribute, with what an A100 has; attributes that are not here are 0. */
static const int attributes[][2] = {
    {1, 1024},       /* threads of a block */
    {2, 1024},       {3, 1024},       {4, 64},
    {5, 2147483647}, {6, 65535},      {7, 65535}, /* blocks of a grid */
    {8, 49152},      /* shared memory of a block */
    {9, 65536},      /* constant memory */
    {10, 32},        /* threads of a warp */
    {11, 2147483647},
    {12, 65536},     /* registers of a block */
    {13, 1410000},   /* kHz */
    {14, 512},       {15, 1},
    {16, 108},       /* multiprocessors */
    {19, 1},         /* can map host memory */
    {31, 1},         /* concurrent kernels */
    {36, 1215000},   {37, 5120},      {38, 41943040}, /* kHz, bits of the bus, L2 */
    {39, 2048},      /* threads of a multiprocessor */
    {40, 3},         {41, 1},         /* unified addressing */
    {78, 1},         {79, 1},         {80, 1},
    {81, 167936},    /* shared memory of a multiprocessor */
    {82, 65536},     {83, 1},         {89, 1},
    {95, 1},         {97, 166912},    /* shared memory of a block, by request */
    {106, 32},       {111, 1024},     {115, 1},
};

CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
    CHECK_DEVICE(device);
    *value = 0;
    if (attribute == 75) *value = (int)(settings[CAPABILITY].value / 10);
    if (attribute == 76) *value = (int)(settings[CAPABILITY].value % 10);
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++)
        if (attributes[i][0] == attribute) *value = attributes[i][1];
    return SUCCESS;
}

static Context *new_context(CUdevice device) {
    Context *made = new_handle(CONTEXT, sizeof(Context));
    made->device = device;
    return made;
}

CUresult cuDevicePrimaryCtxRetain(Context **context, CUdevice device) {
    CHECK_DEVICE(device);
    if (!primary[device]) primary[device] = new_context(device);
    primary[device]->references++;
    *context = primary[device];
    return SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
    CHECK_DEVICE(device);
    if (!primary[device] || !primary[device]->references) return fault(INVALID_CONTEXT, "a context is released too often");
    primary[device]->references--;
    return SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) {
    CHECK_DEVICE(device);
    if (primary[device]) primary[device]->lost = SUCCESS;
    return SUCCESS;
}

/* For tests: what kernels have done wrong is forgotten, and launches count from 0 again. */
void standin_reset(void) {
    pthread_mutex_lock(&lock);
    for (Handle *h = handles; h; h = h->next)
        if (h->mark == CONTEXT) ((Context *)h)->lost = SUCCESS;
    for (int i = 0; i < COUNTERS; i++)
        if (i != IN_USE) counters[i] = 0;
    counters[PEAK] = counters[IN_USE];
    *fault_text = 0;
    pthread_mutex_unlock(&lock);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned *flags, int *active) {
    CHECK_DEVICE(device);
    *flags = 0;
    *active = primary[device] && primary[device]->references > 0;
    return SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned flags) {
    (void)flags;
    CHECK_DEVICE(device);
    return SUCCESS;
}

static CUresult push(Context *context) {
    if (depth == MAX_DEPTH) return INVALID_CONTEXT;
    stack[depth++] = context;
    return SUCCESS;
}

CUresult cuCtxCreate_v4(Context **context, void *parameters, unsigned flags, CUdevice device) {
    (void)parameters, (void)flags;
    CHECK_DEVICE(device);
    *context = new_context(device);
    return push(*context);
}

CUresult cuCtxCreate_v2(Context **context, unsigned flags, CUdevice device) {
    return cuCtxCreate_v4(context, 0, flags, device);
}

CUresult cuCtxDestroy_v2(Context *context) {
    CHECK_INITIALIZED;
    if (depth && stack[depth - 1] == context) depth--;
    return destroy_handle(context, CONTEXT);
}

CUresult cuCtxAttach(Context **context, unsigned flags) {
    (void)flags;
    CHECK_INITIALIZED;
    if (!depth) return INVALID_CONTEXT;
    *context = stack[depth - 1];
    return SUCCESS;
}

CUresult cuCtxDetach(Context *context) {
    (void)context;
    CHECK_INITIALIZED;
    return SUCCESS;
}

CUresult cuCtxPushCurrent_v2(Context *context) {
    CHECK_INITIALIZED;
    if (!is_handle(context, CONTEXT)) return fault(INVALID_CONTEXT, "a context is pushed that does not exist");
    return push(context);
}

CUresult cuCtxPopCurrent_v2(Context **context) {
    CHECK_INITIALIZED;
    if (!depth) return INVALID_CONTEXT;
    depth--;
    if (context) *context = stack[depth];
    return SUCCESS;
}

CUresult cuCtxGetCurrent(Context **context) {
    CHECK_INITIALIZED;
    *context = depth ? stack[depth - 1] : 0;
    return SUCCESS;
}

CUresult cuCtxSetCurrent(Context *context) {
    CHECK_INITIALIZED;
    if (context && !is_handle(context, CONTEXT)) return fault(INVALID_CONTEXT, "a context is set that does not exist");
    if (!context) {
        if (depth) depth--;
        return SUCCESS;
    }
    if (!depth) return push(context);
    stack[depth - 1] = context;
    return SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *device) {
    CHECK_INITIALIZED;
    if (!depth) return INVALID_CONTEXT;
    *device = stack[depth - 1]->device;
    return SUCCESS;
}

CUresult cuCtxGetApiVersion(Context *context, unsigned *version) {
    (void)context;
    CHECK_INITIALIZED;
    *version = (unsigned)settings[VERSION].value;
    return SUCCESS;
}

CUresult cuCtxSynchronize(void) {
    CHECK_CONTEXT;
    counters[SYNCHRONIZATIONS]++;
    return SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
    CHECK_CONTEXT;
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}

/* ---- memory ---- */

typedef struct {
    CUdeviceptr device;
    size_t size;
    char *host;
    int counted; /* device of a cuMemAlloc, or -1: pinned host memory and variables of modules */
} Block;

static Block *blocks; /* in the order of their addresses */
static int block_count, block_room;
static long long used[MAX_DEVICES];
static void *freed[KEPT_FREED];
static unsigned freed_count;

/* The index of the first block above `address`. */
static int block_above(CUdeviceptr address) {
    int low = 0, high = block_count;
    while (low < high) {
        int middle = (low + high) / 2;
        if (blocks[middle].device > address)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void insert_block(Block block) {
    if (block_count == block_room) {
        block_room = block_room ? 2 * block_room : 64;
        blocks = realloc(blocks, (size_t)block_room * sizeof *blocks);
    }
    int at = block_above(block.device);
    memmove(blocks + at + 1, blocks + at, (size_t)(block_count - at) * sizeof *blocks);
    blocks[at] = block;
    block_count++;
}

/* The block that begins at `address`, or -1. */
static int block_at(CUdeviceptr address) {
    int at = block_above(address) - 1;
    return at >= 0 && blocks[at].device == address ? at : -1;
}

/* Fresh memory holds a pattern, a guard follows it, and freed memory is kept for a while: stale use shows. */
static char *fresh(size_t size) {
    size_t room = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT + ALIGNMENT;
    char *made = aligned_alloc(ALIGNMENT, room);
    if (made) memset(made, 0xA5, room);
    return made;
}

static CUresult allocate(CUdeviceptr *address, size_t size, int device) {
    if (!size) return INVALID_VALUE;
    pthread_mutex_lock(&lock);
    CUresult result = SUCCESS;
    if (device >= 0 && used[device] + (long long)size > settings[MEMORY].value) result = OUT_OF_MEMORY;
    char *host = result ? 0 : fresh(size);
    if (!result && !host) result = OUT_OF_MEMORY;
    if (!result) {
        *address = (CUdeviceptr)(uintptr_t)host | DEVICE_BIT;
        insert_block((Block){*address, size, host, device});
        if (device >= 0) {
            used[device] += (long long)size;
            counters[ALLOCATIONS]++;
            counters[IN_USE] += (long long)size;
            if (counters[IN_USE] > counters[PEAK]) counters[PEAK] = counters[IN_USE];
        }
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult release(CUdeviceptr address) {
    pthread_mutex_lock(&lock);
    int at = block_at(address);
    if (at >= 0) {
        Block block = blocks[at];
        memmove(blocks + at, blocks + at + 1, (size_t)(block_count - at - 1) * sizeof *blocks);
        block_count--;
        if (block.counted >= 0) {
            used[block.counted] -= (long long)block.size;
            counters[FREES]++;
            counters[IN_USE] -= (long long)block.size;
        }
        memset(block.host, 0xDD, block.size);
        void **slot = &freed[freed_count++ % KEPT_FREED];
        free(*slot);
        *slot = block.host;
    }
    pthread_mutex_unlock(&lock);
    return at >= 0 ? SUCCESS : fault(INVALID_VALUE, "memory is freed that is not allocated, or was freed before");
}

/* Host address of `size` bytes at `address`, or 0 if they are not all in one allocation. */
static char *range(CUdeviceptr address, size_t size) {
    char *found = 0;
    pthread_mutex_lock(&lock);
    int at = block_above(address) - 1;
    if (at >= 0) {
        size_t offset = (size_t)(address - blocks[at].device);
        if (offset <= blocks[at].size && size <= blocks[at].size - offset) found = blocks[at].host + offset;
    }
    pthread_mutex_unlock(&lock);
    if (!found) fault(INVALID_VALUE, "memory is copied or set that is not allocated");
    return found;
}

/* For the interpreter: the live blocks; gives their number. */
int standin_blocks(CUdeviceptr *device, uint64_t *size, uint64_t *host, int room) {
    pthread_mutex_lock(&lock);
    int count = block_count;
    for (int i = 0; i < count && i < room; i++) {
        device[i] = blocks[i].device;
        size[i] = blocks[i].size;
        host[i] = (uintptr_t)blocks[i].host;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

/* Room for variables of modules, which no limit counts. */
CUdeviceptr standin_allocate(size_t size) {
    CUdeviceptr address = 0;
    allocate(&address, size, -1);
    return address;
}

uint64_t standin_host_address(CUdeviceptr address) { return address & ~DEVICE_BIT; }

void standin_release(CUdeviceptr address) { release(address); }

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
    CHECK_CONTEXT;
    return allocate(address, size, stack[depth - 1]->device);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    CHECK_CONTEXT;
    return address ? release(address) : SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, void *stream) {
    (void)stream;
    return cuMemAlloc_v2(address, size);
}

CUresult cuMemFreeAsync(CUdeviceptr address, void *stream) {
    (void)stream;
    return cuMemFree_v2(address);
}

CUresult cuMemAllocManaged(CUdeviceptr *address, size_t size, unsigned flags) {
    (void)address, (void)size, (void)flags;
    return NOT_SUPPORTED; /* the host cannot use an address with the device's bit */
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total) {
    CHECK_CONTEXT;
    *total = (size_t)settings[MEMORY].value;
    long long left = settings[MEMORY].value - used[stack[depth - 1]->device];
    *free_bytes = left > 0 ? (size_t)left : 0;
    return SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
    CHECK_CONTEXT;
    if (!range(address, 1)) return NOT_FOUND;
    int at = block_above(address) - 1;
    if (base) *base = blocks[at].device;
    if (size) *size = blocks[at].size;
    return SUCCESS;
}

static CUresult add_pinned(void *host, size_t size) {
    pthread_mutex_lock(&lock);
    insert_block((Block){(CUdeviceptr)(uintptr_t)host, size, host, -1});
    pthread_mutex_unlock(&lock);
    return SUCCESS;
}

CUresult cuMemHostAlloc(void **host, size_t size, unsigned flags) {
    (void)flags;
    CHECK_CONTEXT;
    if (!size) return INVALID_VALUE;
    *host = fresh(size);
    return *host ? add_pinned(*host, size) : OUT_OF_MEMORY;
}

CUresult cuMemAllocHost_v2(void **host, size_t size) { return cuMemHostAlloc(host, size, 0); }

CUresult cuMemFreeHost(void *host) {
    CHECK_CONTEXT;
    return release((CUdeviceptr)(uintptr_t)host);
}

CUresult cuMemHostRegister_v2(void *host, size_t size, unsigned flags) {
    (void)flags;
    CHECK_CONTEXT;
    return add_pinned(host, size);
}

CUresult cuMemHostUnregister(void *host) {
    CHECK_CONTEXT;
    pthread_mutex_lock(&lock);
    int at = block_at((CUdeviceptr)(uintptr_t)host);
    if (at >= 0) {
        memmove(blocks + at, blocks + at + 1, (size_t)(block_count - at - 1) * sizeof *blocks);
        block_count--;
    }
    pthread_mutex_unlock(&lock);
    return at >= 0 ? SUCCESS : fault(INVALID_VALUE, "memory is unregistered that is not registered");
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned flags) {
    (void)flags;
    CHECK_CONTEXT;
    *address = (CUdeviceptr)(uintptr_t)host;
    return range(*address, 1) ? SUCCESS : INVALID_VALUE;
}

CUresult cuMemHostGetFlags(unsigned *flags, void *host) {
    (void)host;
    CHECK_CONTEXT;
    *flags = 0;
    return SUCCESS;
}

/* ---- copies: `stream` is checked, and all is done at once ---- */

typedef struct {
    Handle handle;
    unsigned flags;
} Stream;

/* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are streams of every context. */
static int is_stream(const void *stream) { return (uintptr_t)stream <= 2 || is_handle(stream, STREAM); }

#define CHECK_STREAM(stream) \
    if (!is_stream(stream)) return fault(INVALID_HANDLE, "a stream is used that does not exist")

static CUresult copy(char *to, const char *from, size_t size, int counter) {
    if (size && (!to || !from)) return INVALID_VALUE;
    memmove(to, from, size);
    counters[counter]++;
    counters[counter - TO_DEVICE + BYTES_TO_DEVICE] += (long long)size;
    return SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, void *stream) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    return copy(size ? range(to, size) : 0, from, size, TO_DEVICE);
}

CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, void *stream) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    return copy(to, size ? range(from, size) : 0, size, TO_HOST);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, void *stream) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    return copy(size ? range(to, size) : 0, size ? range(from, size) : 0, size, ON_DEVICE);
}

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) { return cuMemcpyHtoDAsync_v2(to, from, size, 0); }
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) { return cuMemcpyDtoHAsync_v2(to, from, size, 0); }
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) { return cuMemcpyDtoDAsync_v2(to, from, size, 0); }

static CUresult set(CUdeviceptr address, const void *pattern, size_t width, size_t count, void *stream) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    if (address % width) return INVALID_VALUE;
    char *to = count ? range(address, width * count) : 0;
    if (count && !to) return INVALID_VALUE;
    for (size_t i = 0; i < count; i++) memcpy(to + i * width, pattern, width);
    counters[MEMSETS]++;
    return SUCCESS;
}

#define MEMSET(name, type)                                                                                        \
    CUresult cuMemset##name##Async(CUdeviceptr to, type value, size_t n, void *stream) {                          \
        return set(to, &value, sizeof value, n, stream);                                                          \
    }                                                                                                             \
    CUresult cuMemset##name##_v2(CUdeviceptr to, type value, size_t n) { return set(to, &value, sizeof value, n, 0); }
MEMSET(D8, unsigned char)
MEMSET(D16, unsigned short)
MEMSET(D32, unsigned)

/* ---- streams and events ---- */

CUresult cuStreamCreate(Stream **stream, unsigned flags) {
    CHECK_CONTEXT;
    *stream = new_handle(STREAM, sizeof(Stream));
    (*stream)->flags = flags;
    return SUCCESS;
}

CUresult cuStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
    (void)priority;
    return cuStreamCreate(stream, flags);
}

CUresult cuStreamDestroy_v2(Stream *stream) {
    CHECK_INITIALIZED;
    return destroy_handle(stream, STREAM);
}

CUresult cuStreamSynchronize(Stream *stream) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    counters[SYNCHRONIZATIONS]++;
    return SUCCESS;
}

CUresult cuStreamQuery(Stream *stream) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    return SUCCESS;
}

CUresult cuStreamGetCtx(Stream *stream, Context **context) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    *context = stack[depth - 1];
    return SUCCESS;
}

typedef struct {
    Handle handle;
    unsigned flags;
    int recorded;
    double milliseconds;
} Event;

enum { DISABLE_TIMING = 2 };

#define CHECK_EVENT(event) \
    if (!is_handle(event, EVENT)) return fault(INVALID_HANDLE, "an event is used that does not exist")

CUresult cuStreamWaitEvent(Stream *stream, Event *event, unsigned flags) {
    (void)flags;
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    CHECK_EVENT(event);
    return SUCCESS;
}

CUresult cuEventCreate(Event **event, unsigned flags) {
    CHECK_CONTEXT;
    *event = new_handle(EVENT, sizeof(Event));
    (*event)->flags = flags;
    return SUCCESS;
}

CUresult cuEventDestroy_v2(Event *event) {
    CHECK_INITIALIZED;
    return destroy_handle(event, EVENT);
}

CUresult cuEventRecord(Event *event, Stream *stream) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    CHECK_EVENT(event);
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    event->milliseconds = (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
    event->recorded = 1;
    return SUCCESS;
}

CUresult cuEventSynchronize(Event *event) {
    CHECK_CONTEXT;
    CHECK_EVENT(event);
    counters[SYNCHRONIZATIONS]++;
    return SUCCESS;
}

CUresult cuEventQuery(Event *event) {
    CHECK_CONTEXT;
    CHECK_EVENT(event);
    return SUCCESS;
}

CUresult cuEventElapsedTime_v2(float *milliseconds, Event *start, Event *end) {
    CHECK_CONTEXT;
    CHECK_EVENT(start);
    CHECK_EVENT(end);
    if (!start->recorded || !end->recorded || (start->flags | end->flags) & DISABLE_TIMING) return INVALID_HANDLE;
    *milliseconds = (float)(end->milliseconds - start->milliseconds);
    return SUCCESS;
}

CUresult cuLaunchHostFunc(Stream *stream, void (*function)(void *), void *data) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    function(data);
    return SUCCESS;
}

CUresult cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}

/* ---- modules and functions ---- */

#define MAX_PARAMETERS 4096

typedef struct {
    Handle handle;
    uint64_t number;
} Module;

typedef struct {
    Handle handle;
    Module *module;
    char *name;
    Kernel kernel;
    int parameter_count, dynamic_limit;
    int *offsets, *sizes;
} Function;

enum { OPTION_INFO_LOG = 3, OPTION_INFO_SIZE = 4, OPTION_ERROR_LOG = 5, OPTION_ERROR_SIZE = 6 };
enum { STATIC_LIMIT = 49152, OPT_IN_LIMIT = 166912 };

static uint64_t last_module;

CUresult cuModuleLoadDataEx(Module **module, const void *image, unsigned count, const int *options, void **values) {
    CHECK_CONTEXT;
    char *log = 0;
    size_t *log_size = 0;
    for (unsigned i = 0; i < count; i++) {
        if (options[i] == OPTION_ERROR_LOG) log = values[i];
        if (options[i] == OPTION_ERROR_SIZE) log_size = (size_t *)&values[i];
        if (options[i] == OPTION_INFO_LOG && values[i]) *(char *)values[i] = 0;
        if (options[i] == OPTION_INFO_SIZE) values[i] = 0;
    }
    const char *text = image;
    char message[1024] = "";
    uint64_t number = ++last_module;
    CUresult result = SUCCESS;
    if (on_load)
        result = on_load(number, text, message, sizeof message);
    else if (!strstr(text, ".version"))
        result = INVALID_PTX;
    if (log && log_size) {
        size_t room = (size_t)(unsigned)*log_size;
        if (room) snprintf(log, room, "%s", message);
        *log_size = result && room ? strlen(log) : 0;
    }
    if (result) return result;
    *module = new_handle(MODULE, sizeof(Module));
    (*module)->number = number;
    counters[MODULES]++;
    return SUCCESS;
}

CUresult cuModuleLoadData(Module **module, const void *image) { return cuModuleLoadDataEx(module, image, 0, 0, 0); }

CUresult cuModuleUnload(Module *module) {
    CHECK_INITIALIZED;
    CUresult result = destroy_handle(module, MODULE);
    if (!result && on_unload) on_unload(module->number);
    return result;
}

CUresult cuModuleGetFunction(Function **function, Module *module, const char *name) {
    CHECK_CONTEXT;
    if (!is_handle(module, MODULE)) return fault(INVALID_HANDLE, "a module is used that does not exist");
    Kernel kernel = {0, 0, 0, 1024};
    int offsets[MAX_PARAMETERS], sizes[MAX_PARAMETERS];
    if (on_kernel) {
        CUresult result = on_kernel(module->number, name, &kernel, offsets, sizes, MAX_PARAMETERS);
        if (result) return result;
    }
    Function *made = *function = new_handle(FUNCTION, sizeof(Function));
    made->module = module;
    made->name = strdup(name);
    made->kernel = kernel;
    made->parameter_count = (int)kernel.parameters;
    made->offsets = malloc(sizeof offsets);
    made->sizes = malloc(sizeof sizes);
    memcpy(made->offsets, offsets, (size_t)kernel.parameters * sizeof *offsets);
    memcpy(made->sizes, sizes, (size_t)kernel.parameters * sizeof *sizes);
    return SUCCESS;
}

CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *size, Module *module, const char *name) {
    CHECK_CONTEXT;
    if (!is_handle(module, MODULE)) return fault(INVALID_HANDLE, "a module is used that does not exist");
    CUdeviceptr found = 0;
    size_t bytes = 0;
    CUresult result = on_symbol ? on_symbol(module->number, name, &found, &bytes) : NOT_FOUND;
    if (address) *address = found;
    if (size) *size = bytes;
    return result;
}

static int is_function(const Function *f) { return is_handle(f, FUNCTION) && is_handle(f->module, MODULE); }

#define CHECK_FUNCTION(function) \
    if (!is_function(function)) return fault(INVALID_HANDLE, "a function is used whose module is not loaded")

CUresult cuFuncGetAttribute(int *value, int attribute, Function *function) {
    CHECK_CONTEXT;
    CHECK_FUNCTION(function);
    switch (attribute) {
        case 0: *value = (int)function->kernel.threads; break;
        case 1: *value = (int)function->kernel.static_shared; break;
        case 3: *value = (int)function->kernel.local; break;
        case 4: *value = 32; break; /* registers: what an interpreter has none of */
        case 5:
        case 6: *value = (int)settings[CAPABILITY].value; break;
        case 8: *value = function->dynamic_limit ? function->dynamic_limit : STATIC_LIMIT; break;
        default: *value = 0;
    }
    return SUCCESS;
}

CUresult cuFuncSetAttribute(Function *function, int attribute, int value) {
    CHECK_CONTEXT;
    CHECK_FUNCTION(function);
    if (attribute == 8) {
        if (value < 0 || value + function->kernel.static_shared > OPT_IN_LIMIT) return INVALID_VALUE;
        function->dynamic_limit = value;
    }
    return SUCCESS;
}

CUresult cuFuncSetCacheConfig(Function *function, int config) {
    (void)config;
    CHECK_CONTEXT;
    CHECK_FUNCTION(function);
    return SUCCESS;
}

/* pycuda calls it before each launch, with the block that the launch names as well. */
CUresult cuFuncSetBlockShape(Function *function, int x, int y, int z) {
    (void)x, (void)y, (void)z;
    CHECK_CONTEXT;
    CHECK_FUNCTION(function);
    return SUCCESS;
}

static int resident_blocks(const Function *function, int threads, size_t shared) {
    size_t bytes = shared + (size_t)function->kernel.static_shared + 1024;
    int by_threads = 2048 / (threads > 0 ? (threads + 31) / 32 * 32 : 32), by_shared = (int)(167936 / bytes);
    int fewest = by_threads < by_shared ? by_threads : by_shared;
    return fewest < 32 ? fewest : 32;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, Function *function, int threads, size_t shared) {
    CHECK_CONTEXT;
    CHECK_FUNCTION(function);
    *count = resident_blocks(function, threads, shared);
    return SUCCESS;
}

/* ---- launches ---- */

enum { END = 0, BUFFER_POINTER = 1, BUFFER_SIZE = 2 };

CUresult cuLaunchKernel(
    Function *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared,
    Stream *stream, void **parameters, void **extra) {
    CHECK_CONTEXT;
    CHECK_STREAM(stream);
    CHECK_FUNCTION(function);
    Context *context = stack[depth - 1];
    if (!gx || !gy || !gz || !bx || !by || !bz) return INVALID_VALUE;
    if (gx > 2147483647u || gy > 65535 || gz > 65535 || bx > 1024 || by > 1024 || bz > 64) return INVALID_VALUE;
    if ((long long)bx * by * bz > function->kernel.threads) return INVALID_VALUE;
    int limit = function->dynamic_limit > STATIC_LIMIT ? OPT_IN_LIMIT : STATIC_LIMIT;
    if (shared + function->kernel.static_shared > limit) return INVALID_VALUE;
    if (function->dynamic_limit && (int)shared > function->dynamic_limit) return INVALID_VALUE;
    size_t size = 0;
    const void *given = 0;
    char *packed = 0;
    if (extra) {
        for (void **e = extra; *e != (void *)END; e += 2) {
            if (*e == (void *)BUFFER_POINTER) given = e[1];
            if (*e == (void *)BUFFER_SIZE) size = *(size_t *)e[1];
        }
    } else if (function->parameter_count) {
        if (!parameters) return INVALID_VALUE;
        int last = function->parameter_count - 1;
        size = (size_t)(function->offsets[last] + function->sizes[last]);
        given = packed = calloc(1, size);
        for (int i = 0; i <= last; i++) memcpy(packed + function->offsets[i], parameters[i], (size_t)function->sizes[i]);
    }
    unsigned extents[6] = {gx, gy, gz, bx, by, bz};
    CUresult result = SUCCESS;
    counters[LAUNCHES]++;
    if (settings[FAIL_LAUNCH].value && counters[LAUNCHES] == settings[FAIL_LAUNCH].value)
        result = LAUNCH_FAILED;
    else if (on_launch)
        result = on_launch(function->module->number, function->name, extents, shared, given, size);
    free(packed);
    if (result == INVALID_VALUE) return result;
    context->lost = result;
    return settings[SYNCHRONOUS].value ? result : SUCCESS;
}

/* ---- errors ---- */

static const struct {
    CUresult code;
    const char *name, *text;
} errors[] = {
    {0, "CUDA_SUCCESS", "no error"},
    {1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {3, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {100, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {201, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {218, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {600, "CUDA_ERROR_NOT_READY", "device not ready"},
    {700, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"},
    {702, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {710, "CUDA_ERROR_ASSERT", "device-side assert triggered"},
    {715, "CUDA_ERROR_ILLEGAL_INSTRUCTION", "an illegal instruction was encountered"},
    {716, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {719, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
};

static CUresult describe(CUresult code, const char **out, int name) {
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code) {
            *out = name ? errors[i].name : errors[i].text;
            return SUCCESS;
        }
    *out = 0;
    return INVALID_VALUE;
}

CUresult cuGetErrorName(CUresult code, const char **name) { return describe(code, name, 1); }
CUresult cuGetErrorString(CUresult code, const char **text) { return describe(code, text, 0); }

/* ---- entry points by name ---- */

CUresult cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status) {
    (void)version, (void)flags;
    static const char *suffixes[] = {"_v4", "_v3", "_v2", ""};
    static void *self;
    Dl_info info;
    if (!self && dladdr((void *)cuInit, &info)) self = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD);
    *address = 0;
    for (int i = 0; i < 4 && !*address; i++) {
        char whole[256];
        snprintf(whole, sizeof whole, "%s%s", name, suffixes[i]);
        *address = dlsym(self, whole);
        /* names resolve through dependencies as well: what is not ours is not there */
        if (*address && (!dladdr(*address, &info) || !info.dli_fbase)) *address = 0;
    }
    if (status) *status = *address ? 0 : 1;
    return *address ? SUCCESS : NOT_FOUND;
}

CUresult cuGetProcAddress(const char *name, void **address, int version, uint64_t flags) {
    return cuGetProcAddress_v2(name, address, version, flags, 0);
}

/* ---- what pycuda's extension links against and nobody here calls ---- */

#define REFUSED(name) \
    CUresult name(void) { return NOT_SUPPORTED; }
REFUSED(cuArray3DCreate_v2)
REFUSED(cuArray3DGetDescriptor_v2)
REFUSED(cuArrayCreate_v2)
REFUSED(cuArrayDestroy)
REFUSED(cuArrayGetDescriptor_v2)
REFUSED(cuCtxDisablePeerAccess)
REFUSED(cuCtxEnablePeerAccess)
REFUSED(cuCtxGetCacheConfig)
REFUSED(cuCtxGetLimit)
REFUSED(cuCtxGetSharedMemConfig)
REFUSED(cuCtxSetCacheConfig)
REFUSED(cuCtxSetLimit)
REFUSED(cuCtxSetSharedMemConfig)
REFUSED(cuDeviceCanAccessPeer)
REFUSED(cuFuncSetSharedSize)
REFUSED(cuIpcCloseMemHandle)
REFUSED(cuIpcGetEventHandle)
REFUSED(cuIpcGetMemHandle)
REFUSED(cuIpcOpenEventHandle)
REFUSED(cuIpcOpenMemHandle_v2)
REFUSED(cuLaunch)
REFUSED(cuLaunchGrid)
REFUSED(cuLaunchGridAsync)
REFUSED(cuLinkAddData_v2)
REFUSED(cuLinkAddFile_v2)
REFUSED(cuLinkComplete)
REFUSED(cuLinkCreate_v2)
REFUSED(cuLinkDestroy)
REFUSED(cuMemAllocPitch_v2)
REFUSED(cuMemcpy2DAsync_v2)
REFUSED(cuMemcpy2DUnaligned_v2)
REFUSED(cuMemcpy2D_v2)
REFUSED(cuMemcpy3DAsync_v2)
REFUSED(cuMemcpy3DPeer)
REFUSED(cuMemcpy3DPeerAsync)
REFUSED(cuMemcpy3D_v2)
REFUSED(cuMemcpyAtoA_v2)
REFUSED(cuMemcpyAtoD_v2)
REFUSED(cuMemcpyAtoH_v2)
REFUSED(cuMemcpyDtoA_v2)
REFUSED(cuMemcpyHtoA_v2)
REFUSED(cuMemcpyPeer)
REFUSED(cuMemcpyPeerAsync)
REFUSED(cuMemsetD2D16Async)
REFUSED(cuMemsetD2D16_v2)
REFUSED(cuMemsetD2D32Async)
REFUSED(cuMemsetD2D32_v2)
REFUSED(cuMemsetD2D8Async)
REFUSED(cuMemsetD2D8_v2)
REFUSED(cuModuleGetSurfRef)
REFUSED(cuModuleGetTexRef)
REFUSED(cuModuleLoad)
REFUSED(cuParamSetSize)
REFUSED(cuParamSetTexRef)
REFUSED(cuParamSetf)
REFUSED(cuParamSeti)
REFUSED(cuParamSetv)
REFUSED(cuProfilerInitialize)
REFUSED(cuProfilerStart)
REFUSED(cuProfilerStop)
REFUSED(cuStreamAttachMemAsync)
REFUSED(cuSurfRefGetArray)
REFUSED(cuSurfRefSetArray)
REFUSED(cuTexRefCreate)
REFUSED(cuTexRefDestroy)
REFUSED(cuTexRefGetAddressMode)
REFUSED(cuTexRefGetAddress_v2)
REFUSED(cuTexRefGetArray)
REFUSED(cuTexRefGetFilterMode)
REFUSED(cuTexRefGetFlags)
REFUSED(cuTexRefGetFormat)
REFUSED(cuTexRefSetAddress2D_v3)
REFUSED(cuTexRefSetAddressMode)
REFUSED(cuTexRefSetAddress_v2)
REFUSED(cuTexRefSetArray)
REFUSED(cuTexRefSetFilterMode)
REFUSED(cuTexRefSetFlags)
REFUSED(cuTexRefSetFormat)
