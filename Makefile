# directnfs: build, test, install.  `make help` lists the targets.
# Variables: CC, CFLAGS, WERROR=1, SANITIZE=address|undefined|thread, PREFIX, LIBDIR, DESTDIR, BUILD,
#            VERSION, V=1
#            SECONDS of each fuzzer (60)
#            TEST_SWITCHES=1: protections can be switched off, see src/sys/test_switch.h; only for test/fault

PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
# Where the configuration is looked for, whatever the prefix is.
SYSCONFDIR := /etc
BUILD   ?= build
CC      ?= gcc
OBJCOPY ?= objcopy
VERSION := $(shell scripts/version)
# Of the library: the layout of the memory that processes share. Those of one run directory need the same number.
SOVERSION := $(shell sed -n 's/.*LEDGER_REGISTRY_LAYOUT = \([0-9]*\).*/\1/p' src/ledger/store/layout.h)

CFLAGS   ?= -O2 -g
CPPFLAGS += -D_GNU_SOURCE -Iinclude -iquote src $(shell pkg-config --cflags libtirpc)
CSTD     := -std=gnu11 -Wall -Wextra -fPIC -fno-strict-aliasing -fvisibility=hidden -ftls-model=initial-exec -pthread -MMD -MP

# The library depends on libc alone, or no program would start in an image that lacks the rest.  So libtirpc, of which XDR
# routines are used, and libconfig are linked as archives where there are any: but not under sanitizers, which intercept
# what these do, and know shared libraries by name.
archive = $(if $(SANITIZE),,$(wildcard $(shell $(CC) -print-file-name=$(1).a)))
TIRPC  := $(if $(call archive,libtirpc),-l:libtirpc.a,$(shell pkg-config --libs libtirpc))
CONFIG := $(call archive,libconfig)
CURSES := $(shell pkg-config --libs ncursesw)

ifdef WERROR
CSTD += -Werror
endif
ifdef SANITIZE
CSTD    += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
LDFLAGS += -fsanitize=$(SANITIZE)
endif
ifdef FUZZER
CSTD    += -fsanitize=fuzzer-no-link
endif
ifdef TEST_SWITCHES
CPPFLAGS += -DDIRECTNFS_TEST_SWITCHES
endif
# One spelling of the directory, so that objects and what they depend on have the same names in each run.
override BUILD := $(patsubst $(CURDIR)/%,%,$(abspath $(BUILD)))$(if $(FUZZER),/fuzz,$(if $(SANITIZE),/$(SANITIZE)))$(if $(TEST_SWITCHES),/switches)
LIBS := $(TIRPC) $(if $(CONFIG),$(BUILD)/libconfig.a,$(shell pkg-config --libs libconfig)) -pthread
Q := $(if $(V),,@)
say = $(if $(V),,@echo '  $(1)	$(2)';)

# Every room below the face is one static library, which tests, benchmarks and the command link too.
ROOMS    := sys config run ledger stats net rpc nfs reach mount file durable io async ahead fd
CORE     := $(wildcard $(ROOMS:%=src/%/*.c) $(ROOMS:%=src/%/*/*.c))
FACE     := $(wildcard src/preload/*.c src/preload/*/*.c)
CMD      := $(wildcard src/cmd/*.c src/cmd/*/*.c)
UNIT     := $(wildcard test/unit/test_*.c)
SERVERS  := $(wildcard test/servers/*.c)
SCENES   := $(wildcard test/scenes/*.c)
ifdef FUZZER # what fuzzers use
SERVERS  := $(addprefix test/servers/,hex.c nfs3_server.c replies.c stream.c)
SCENES   := $(addprefix test/scenes/,expecting.c nfs3_messages.c nfs4_messages.c nfstab_helpers.c rpc_scene.c stats_segment.c unit.c)
endif
PROGRAMS := $(wildcard test/integration/*.c)
BENCH    := $(wildcard test/bench/*.c)
FAULT    := $(wildcard test/fault/*.c)
VM       := $(filter-out %/xstate.c,$(wildcard test/vm/*.c)) # which test/vm/run builds
FUZZ     := $(wildcard test/fuzz/*.c)

obj = $(1:%.c=$(BUILD)/obj/%.o)
bin = $(1:%.c=$(BUILD)/%)

all: library $(BUILD)/directnfs
library: $(BUILD)/libdirectnfs.so

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CPPFLAGS) $(CSTD) $(CFLAGS) -c $< -o $@
# The face defines what headers would redirect to checking functions.
$(BUILD)/obj/src/preload/%.o: private override CFLAGS += -U_FORTIFY_SOURCE
# What cmocka 2 calls deprecated is all that cmocka 1 has.
$(BUILD)/obj/test/%.o: private CPPFLAGS += -iquote test/servers -iquote test/scenes -DCMOCKA_DISABLE_DEPRECATION_WARNINGS
$(BUILD)/obj/test/bench/%.o: private CPPFLAGS += -iquote test/bench/shared
$(BUILD)/obj/test/fault/%.o: private CPPFLAGS += -iquote test/fault/shared
# With all of it inlined a compiler needs three times as long, and no test is faster.
$(BUILD)/obj/test/unit/%.o $(BUILD)/obj/test/scenes/%.o: private override CFLAGS := $(CFLAGS:-O2=-Og)
VERSIONED := $(addprefix $(BUILD)/obj/src/,cmd/main.o cmd/check/pid.o cmd/report/parts.o preload/version.o)
$(VERSIONED): private CPPFLAGS += -DDIRECTNFS_VERSION='"$(VERSION)"'
$(VERSIONED): $(BUILD)/version
$(BUILD)/version: always
	@mkdir -p $(@D); echo '$(VERSION)' | cmp -s - $@ || echo '$(VERSION)' >$@

$(BUILD)/libdirectnfs.a: $(call obj,$(CORE)) $(if $(CONFIG),$(BUILD)/libconfig.a)
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
# Debian's archive is compiled for programs: from a shared library it cannot reach the three variables of libc that it
# names.  It gets those of src/config/tunables.c.
$(BUILD)/libconfig.a: $(CONFIG)
	@mkdir -p $(@D)
	$(call say,COPY,$@)$(OBJCOPY) $(foreach name,stdin stdout stderr,--redefine-sym $(name)=conf_$(name)) $< $@

# The other names of wrappers, as a script for the linker.
$(BUILD)/twins.ld: src/preload/symbols.h
	@mkdir -p $(@D)
	$(call say,CPP,$@)printf '%s\n' '#include "$<"' '#define SYMBOL(...)' '#define TWIN(name, target) name = target;' \
	    'PRELOAD_ALL(SYMBOL, TWIN)' | $(CC) -E -P -I. - -o $@

# -Bsymbolic-functions: what the library calls by a name that it defines is its own, whoever is preloaded before it.
# --sort-section: see src/sys/large.h.
$(BUILD)/libdirectnfs.so: $(call obj,$(FACE)) $(BUILD)/libdirectnfs.a $(BUILD)/twins.ld src/preload/preload.map
	$(call say,LD,$@)$(CC) $(LDFLAGS) -shared -Wl,-soname,libdirectnfs.so.$(SOVERSION) -Wl,-z,now -Wl,-z,nodelete -Wl,--sort-section=name -Wl,-Bsymbolic-functions $(if $(SANITIZE),,-Wl,-z,defs) \
	    -Wl,--version-script=src/preload/preload.map -Wl,--exclude-libs,ALL -o $@ $(call obj,$(FACE)) $(BUILD)/twins.ld \
	    $(BUILD)/libdirectnfs.a $(LIBS)

$(BUILD)/directnfs: $(call obj,$(CMD)) $(BUILD)/libdirectnfs.a
	$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) $(CURSES) -lm

# What tests share, built once: the servers that they play, and the scenes of the unit tests. A linker takes the first
# object that defines a name, so no name may be there twice.
PLAYED := $(BUILD)/test/scenes.a $(BUILD)/test/servers.a
$(BUILD)/test/servers.a: $(call obj,$(SERVERS))
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $^
$(BUILD)/test/scenes.a: $(call obj,$(SCENES)) $(BUILD)/test/servers.a
	@mkdir -p $(@D)
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)
	@twice=$$(nm -gP $(PLAYED) 2>/dev/null | awk '$$2 ~ /[BDRT]/ && seen[$$1]++ { print $$1 }'); \
	    [ -z "$$twice" ] || { echo "$@: defined twice: $$twice" >&2; rm -f $@; exit 1; }

$(BUILD)/test/unit/%: $(BUILD)/obj/test/unit/%.o $(PLAYED) $(BUILD)/libdirectnfs.a
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $^ $(LIBS) $(UNIT_LIBS) -lcmocka
# Servers with TLS. The library loads OpenSSL itself, and so these also are programs that use it beside the library.
$(filter $(BUILD)/test/unit/test_tls%,$(call bin,$(UNIT))): UNIT_LIBS := -lssl -lcrypto
$(BUILD)/test/unit/test_rpc_exported: UNIT_LIBS := -lgssapi_krb5

$(BUILD)/test/integration/%: test/integration/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) -D_GNU_SOURCE -std=gnu11 -Wall -Wextra -MMD -MP $(CFLAGS) -o $@ $< -pthread $(PROGRAM_LIBS)
$(addprefix $(BUILD)/test/integration/,ends uring uring_waits uring_world): PROGRAM_LIBS := -luring
$(BUILD)/test/integration/tls_host: PROGRAM_LIBS := -lssl -lcrypto
# They make, or look at, files of the run directory.
$(addprefix $(BUILD)/test/integration/,behind intruder_files): PROGRAM_LIBS := -Iinclude -iquote src

# A program of measurements or of the laboratory: NAME.c, its parts in NAME, and what all of them share.
.SECONDEXPANSION:
parts = $(call obj,$(1:%=%.c) $(wildcard $(1:%=%/*.c) $(dir $(1))shared/*.c)) $(BUILD)/test/servers.a
$(BUILD)/test/bench/%: $$(call parts,test/bench/$$*)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) -pthread -lm $(BENCH_LIBS)
$(BUILD)/test/bench/gssloop: BENCH_LIBS := -lgssapi_krb5
$(BUILD)/test/bench/tlsloop: BENCH_LIBS := -lssl -lcrypto

$(BUILD)/test/fault/%: $$(call parts,test/fault/$$*)
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDFLAGS) -o $@ $(filter %.o %.a,$^) -pthread -luring $(FAULT_LIBS)
$(addprefix $(BUILD)/test/fault/,proxy tlsproxy): FAULT_LIBS := -lssl -lcrypto

$(BUILD)/test/vm/%: test/vm/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) -D_GNU_SOURCE -std=gnu11 -Wall -Wextra -MMD -MP $(if $(WERROR),-Werror) $(CFLAGS) -o $@ $<

$(BUILD)/test/lib/%: test/lib/%.c
	@mkdir -p $(@D)
	$(call say,CC,$@)$(CC) -D_GNU_SOURCE -std=gnu11 -Wall -Wextra -MMD -MP $(if $(WERROR),-Werror) -O2 -o $@ $<

# Built by `make fuzzers`, which sets what clang needs for all objects.
$(BUILD)/test/fuzz/%: $(BUILD)/obj/test/fuzz/%.o $(PLAYED) $(BUILD)/libdirectnfs.a
	@mkdir -p $(@D)
	$(call say,LD,$@)$(CC) $(LDFLAGS) -fsanitize=fuzzer -o $@ $^ $(LIBS) -lcmocka -lm

unit: $(call bin,$(UNIT))
programs: $(call bin,$(PROGRAMS) $(BENCH) $(FAULT) $(VM) test/lib/limit.c)

check:
	scripts/check
demo:
	scripts/demo
bench: all programs
	test/bench/run
bench-model: all programs
	test/bench/model/run --build '$(BUILD)'
torture: all programs
	test/fault/run

# Fuzzers: libFuzzer of clang, in a build of their own, $(BUILD)/fuzz.
SECONDS ?= 60
fuzzers:
	$(Q)$(MAKE) CC=clang FUZZER=1 SANITIZE=address,undefined BUILD='$(BUILD)' CFLAGS='$(CFLAGS:-O2=-O1)' $(FUZZ:%.c=$(BUILD)/fuzz/%)
fuzz: fuzzers
	test/fuzz/run $(BUILD)/fuzz/test/fuzz $(SECONDS)

# What is given to others: see scripts/dist, scripts/deb and scripts/rpm.
dist deb rpm:
	$(Q)BUILD='$(BUILD)' VERSION='$(VERSION)' scripts/$@

# What `make install` puts where, as MODE:FILE:DIRECTORY; `make uninstall` removes the same.
# The library is no link library, and LD_PRELOAD of running programs names it: a directory of its own, one name for all
# versions, and a new one takes the place of the old in one step.
DOC := $(PREFIX)/share/doc/directnfs
DROPINS := $(patsubst conf/%,$(BUILD)/%,$(wildcard conf/systemd/*.conf conf/systemd/*.service))
INSTALLED := 755:$(BUILD)/directnfs:$(PREFIX)/bin 644:$(BUILD)/libdirectnfs.so:$(LIBDIR)/directnfs \
    644:$(BUILD)/directnfs.pc:$(PREFIX)/share/pkgconfig \
    644:conf/bash-completion/directnfs:$(PREFIX)/share/bash-completion/completions \
    $(foreach file,$(wildcard include/directnfs/*.h),644:$(file):$(PREFIX)/include/directnfs) \
    $(foreach file,$(wildcard man/*.[1-8]),644:$(file):$(PREFIX)/share/man/man$(subst .,,$(suffix $(file)))) \
    $(foreach file,README CHANGELOG SECURITY LICENSE,644:$(file):$(DOC)) \
    $(foreach file,conf/nfstab $(wildcard conf/*.conf),644:$(file):$(PREFIX)/share/directnfs) \
    $(foreach file,$(DROPINS),644:$(file):$(PREFIX)/share/directnfs/systemd) \
    $(foreach file,$(wildcard conf/container/*),644:$(file):$(PREFIX)/share/directnfs/container) \
    644:conf/prometheus/alerts.yml:$(PREFIX)/share/directnfs/prometheus \
    644:conf/grafana/directnfs.json:$(PREFIX)/share/directnfs/grafana

install: all $(BUILD)/directnfs.pc $(DROPINS)
	$(Q)for entry in $(INSTALLED); do IFS=:; set -- $$entry; to=$(DESTDIR)$$3/$${2##*/}; \
	    install -D -m $$1 $$2 $$to.new && mv -f $$to.new $$to || exit 1; done
	$(Q)install -d $(DESTDIR)$(SYSCONFDIR)/directnfs
uninstall:
	$(Q)for entry in $(INSTALLED); do IFS=:; set -- $$entry; rm -f $(DESTDIR)$$3/$${2##*/} || exit 1; done
	$(Q)for dir in $(LIBDIR)/directnfs $(PREFIX)/include/directnfs $(PREFIX)/share/directnfs/systemd \
	    $(PREFIX)/share/directnfs/prometheus $(PREFIX)/share/directnfs/grafana $(PREFIX)/share/directnfs/container $(PREFIX)/share/directnfs $(DOC) $(SYSCONFDIR)/directnfs; do \
	    [ ! -d $(DESTDIR)$$dir ] || rmdir --ignore-fail-on-non-empty $(DESTDIR)$$dir; done

$(BUILD)/systemd/%: conf/systemd/% always
	@mkdir -p $(@D); sed 's|@LIBDIR@|$(LIBDIR)|; s|@BINDIR@|$(PREFIX)/bin|' $< >$@
$(BUILD)/directnfs.pc: always
	@printf '%s\n' 'prefix=$(PREFIX)' 'includedir=$${prefix}/include' '' 'Name: directnfs' \
	    'Description: The statistics that directnfs shows in shared memory' 'Version: $(firstword $(subst -, ,$(VERSION)))' \
	    'Cflags: -I$${includedir}' >$@

clean:
	rm -rf $(BUILD)
help:
	@echo 'targets: all (default), unit, programs, check, demo, bench, bench-model, torture, fuzz, install, uninstall, dist, deb, rpm, clean'

.PHONY: all library unit programs check demo bench bench-model torture fuzzers fuzz install uninstall dist deb rpm clean help always
.PRECIOUS: $(BUILD)/obj/%.o
-include $(shell find $(BUILD)/obj $(BUILD)/test -name '*.d' 2>/dev/null)
