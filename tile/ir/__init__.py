"""The intermediate representation: types, operations, text, verifier, rewriting and passes."""
