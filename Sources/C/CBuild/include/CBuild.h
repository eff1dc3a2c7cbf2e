// SPDX-License-Identifier: Apache-2.0

#ifndef CBUILD_H
#define CBUILD_H

/// The commit that a release was built from; empty in other builds. Packaging/strip writes it into
/// the finished program, so that another commit needs no new build. The string lives as long as the
/// program.
const char *tocsin_build_commit(void);

#endif
