r"""Mutation: plants bugs in the components of a page and counts those that its claims notice.

A claim that no bug can refute says nothing. Here bugs are planted one at a time in the source of a
page (`places`, `expressions`, `statements`), some of them are drawn (`choosing`), each stands in
for the page in a forked process (`planting`, `children`) where the claims that reach its line are
checked (`sound`, `hunt`), and then perhaps the tests (`suite`); what is noticed is counted and kept
(`scores`), but for bugs that are none, which a chapter lists with the reason (`equivalents`).
"""
