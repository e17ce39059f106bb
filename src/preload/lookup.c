/*
 * With the handle of a library, dlsym(3) finds libc's function and not the wrapper before it.
 * Foreign function interfaces (ctypes of Python, JNA of Java, P/Invoke of .NET) call fsync() and
 * its like so. An fsync() that passes the library by would vouch for data that nobody has
 * committed. So they get the wrapper, too.
 */
#include <string.h>

#include "preload/preload.h"

#if defined(__x86_64__)
#define FIRST_VERSION "GLIBC_2.2.5"
#elif defined(__aarch64__)
#define FIRST_VERSION "GLIBC_2.17"
#else
#define FIRST_VERSION "GLIBC_2.34"
#endif

static _Atomic(preload_lookup_function *) lookup; /* written with one value */

LEAVE_BY_JUMP preload_lookup_function *preload_lookup(void)
{
    preload_lookup_function *function = atomic_load_explicit(&lookup, memory_order_relaxed);
    if (PRELOAD_UNLIKELY(function == NULL)) {
        /* Unlike dlsym() this one is libc's. It allocates nothing when it finds the symbol. */
        function = (preload_lookup_function *)dlvsym(RTLD_NEXT, "dlsym", FIRST_VERSION);
        atomic_store_explicit(&lookup, function, memory_order_relaxed);
    }
    return function;
}

#define SYMBOL(name, ...)  #name "\0"
#define TWIN(name, target) #name "\0"
static const char names[] = PRELOAD_ALL(SYMBOL, TWIN);

static bool is_wrapped(const char *name)
{
    for (const char *one = names; *one != '\0'; one += strlen(one) + 1)
        if (strcmp(one, name) == 0)
            return true;
    return false;
}

/* The wrapper is ours, even if another library defines the name before us. That library may be the
 * caller, and would call itself. */
static void *wrapper(const char *name)
{
    Dl_info self;
    void *library = NULL, *found = NULL;
    if (dladdr(names, &self) != 0)
        library = PRELOAD_REAL(dlopen)(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) {
        found = preload_lookup()(library, name);
        dlclose(library);
    }
    return found;
}

/* Replaces only what we would call ourselves. It does not replace what another library defines
 * before or after us, nor a function that has the name by chance. */
static void *wrapper_or(void *found, const char *name)
{
    if (found == NULL || !is_wrapped(name))
        return found;
    void *next = preload_lookup()(RTLD_NEXT, name);
    if (next == NULL)
        next = preload_plugin_function(name);
    void *ours = next == found ? wrapper(name) : NULL;
    if (ours != NULL)
        return ours;
    dlerror(); /* the program must not see our message */
    return found;
}

PRELOAD_EXPORT LEAVE_BY_JUMP void *dlsym(void *handle, const char *name)
{
    if (handle == RTLD_NEXT || handle == RTLD_DEFAULT)
        JUMP preload_lookup()(handle, name);
    return wrapper_or(preload_lookup()(handle, name), name);
}
