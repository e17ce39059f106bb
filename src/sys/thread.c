#include "sys/thread.h"

#include <pthread.h>
#include <string.h>

#include "sys/log.h"
#include "sys/sys.h"

enum { STACK_BYTES = 512 * 1024 };

bool sys_thread_start(void *(*function)(void *argument), void *argument, const char *purpose)
{
    pthread_attr_t attributes;
    pthread_t thread;
    unsigned long all = ~0UL, before;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    sys_sigprocmask(SIG_SETMASK, &all, &before); /* the application's signals are not for it */
    int error = pthread_create(&thread, &attributes, function, argument);
    sys_sigprocmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error != 0)
        log_error("no thread for %s could be started: %s", purpose, strerrordesc_np(error));
    return error == 0;
}
