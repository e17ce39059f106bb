/* The file that the processes of a program of faults share. */
#ifndef FAULT_MAP_H
#define FAULT_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* Maps it; `make`: it is new, and empty. Ends the program if it cannot. */
void *map_file(const char *path, size_t size, bool make);

#endif
