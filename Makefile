# directnfs: build, test, install.  `make help` lists the targets.
# Variables: CC, CFLAGS, WERROR=1, SANITIZE=address|undefined|thread, PREFIX, DESTDIR, BUILD, V=1
#            TEST_SWITCHES=1: protections can be switched off, see src/sys/test_switch.h; only for test/fault

PREFIX  ?= /usr/local
BUILD   ?= build
CC      ?= gcc
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

CFLAGS   ?= -O2 -g
CPPFLAGS += -D_GNU_SOURCE -DDIRECTNFS_VERSION='"$(VERSION)"' -Iinclude -iquote src $(shell pkg-config --cflags libtirpc)
CSTD     := -std=gnu11 -Wall -Wextra -fPIC -fno-strict-aliasing -fvisibility=hidden -ftls-model=initial-exec -pthread -MMD -MP

# Only libtirpc's XDR routines are used.  Its archive, where there is one, keeps the Kerberos libraries, which the shared
# library brings along, out of every process under preload: they are most of
# what a start costs.  Sanitizers intercept these routines and go on to those of a shared library.
TIRPC := $(if $(and $(if $(SANITIZE),,y),$(wildcard $(shell $(CC) -print-file-name=libtirpc.a))),-l:libtirpc.a,$(shell pkg-config --libs libtirpc))
LIBS  := $(TIRPC) $(shell pkg-config --libs libconfig) -pthread

ifdef WERROR
CSTD += -Werror
endif
ifdef SANITIZE
CSTD    += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
LDFLAGS += -fsanitize=$(SANITIZE)
endif
ifdef TEST_SWITCHES
CPPFLAGS += -DDIRECTNFS_TEST_SWITCHES
endif
# One spelling of the directory, so that objects and what they depend on have the same names in each run.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))$(if $(SANITIZE),/$(SANITIZE))$(if $(TEST_SWITCHES),/switches)
Q := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)	$(2)';)

# Every room below the face is one static library, which tests, benchmarks and the command link too.
ROOMS    := sys config host net rpc nfs file
CORE     := $(wildcard $(ROOMS:%=src/%/*.c))
FACE     := $(wildcard src/preload/*.c)
CMD      := $(wildcard src/cmd/*.c)
UNIT     := $(wildcard test/unit/test_*.c)
PROGRAMS := $(wildcard test/integration/*.c)
BENCH    := $(wildcard test/bench/*.c)

obj = $(1:%.c=$(BUILD)/obj/%.o)
bin = $(1:%.c=$(BUILD)/%)

all: $(BUILD)/libdirectnfs.so $(BUILD)/directnfs

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CPPFLAGS) $(CSTD) $(CFLAGS) -c $< -o $@

$(BUILD)/libdirectnfs.a: $(call obj,$(CORE))
	$(call say,AR,$@)rm -f $@ && ar rcs $@ $^

$(BUILD)/libdirectnfs.so: $(call obj,$(FACE)) $(BUILD)/libdirectnfs.a src/preload/preload.map
	$(call say,LD,$@)$(CC) $(LDFLAGS) -shared -Wl,-soname,libdirectnfs.so -Wl,-z,now -Wl,-z,nodelete $(if $(SANITIZE),,-Wl,-z,defs) \
	    -Wl,--version-script=src/preload/preload.map -o $@ $(call obj,$(FACE)) $(BUILD)/libdirectnfs.a $(LIBS)

$(BUILD)/directnfs: $(call obj,$(CMD)) $(BUILD)/libdirectnfs.a
	$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS)

$(BUILD)/test/unit/%: $(BUILD)/obj/test/unit/%.o $(BUILD)/libdirectnfs.a
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) -lcmocka

$(BUILD)/test/integration/%: test/integration/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) -D_GNU_SOURCE -std=gnu11 -Wall -Wextra -MMD -MP $(CFLAGS) -o $@ $< -pthread $(PROGRAM_LIBS)
$(BUILD)/test/integration/uring $(BUILD)/test/integration/uring_waits: PROGRAM_LIBS := -luring

$(BUILD)/test/bench/%: test/bench/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) -D_GNU_SOURCE -std=gnu11 -Wall -Wextra -MMD -MP $(CFLAGS) -o $@ $< -pthread

unit: $(call bin,$(UNIT))
programs: $(call bin,$(PROGRAMS) $(BENCH))

check:
	scripts/check
demo:
	scripts/demo
bench: all programs
	test/bench/run

install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/lib $(DESTDIR)$(PREFIX)/include/directnfs
	install -m 755 $(BUILD)/directnfs $(DESTDIR)$(PREFIX)/bin/
	install -m 644 $(BUILD)/libdirectnfs.so $(DESTDIR)$(PREFIX)/lib/
	install -m 644 include/directnfs/*.h $(DESTDIR)$(PREFIX)/include/directnfs/
	for page in man/*.[1-8]; do \
	    install -D -m 644 $$page $(DESTDIR)$(PREFIX)/share/man/man$${page##*.}/$${page##*/} || exit 1; done
	install -D -m 644 -t $(DESTDIR)$(PREFIX)/share/doc/directnfs README LICENSE conf/*

clean:
	rm -rf $(BUILD)
help:
	@echo 'targets: all (default), unit, programs, check, demo, bench, install, clean'

.PHONY: all unit programs check demo bench install clean help
.SECONDARY:
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
