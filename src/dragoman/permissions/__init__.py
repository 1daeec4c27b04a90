"""Permissions: the actions that an agent requests, and the decisions about them. One pipeline, from one value.

describe   an agent's request becomes an `Action`, with everything the agent sent (`describe`, `fields`, `sensitive`)
decide     approvals and settings are looked at, in one order (`decide`, `approvals`, `autoapproval`, `keys`)
ask        the question's text is made from the action (`question`, `layout`, `diffs`); front ends lay it out
prove      a yes becomes a token that is good for that one request (`grants`)
record     the decision is stored with the action (`record`)
"""
