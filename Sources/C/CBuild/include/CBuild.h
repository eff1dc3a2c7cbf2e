// SPDX-License-Identifier: Apache-2.0

#ifndef CBUILD_H
#define CBUILD_H

/// The commit that a release was built from, as Packaging/strip writes it into the finished program, so that another commit
/// needs no new build: a string in memory that lives as long as the program; empty in other builds.
const char *tocsin_build_commit(void);

#endif
