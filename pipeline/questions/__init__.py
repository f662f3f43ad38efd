"""The questions that people ask, by name: will it finish, was it kept, what rate, what happened, who was starved.

- **Answer** (`answer`): a sentence, a number, its evidence, its uncertainty, and what a script wants to know.
- Each question has a module: the *facts*, a bounded number of values that Spark works out from the tables, and a pure
  function from the facts to the answer.

Invariant: what an answer cannot know it says, and a number is never without a unit.
"""
