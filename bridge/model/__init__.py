"""Words that everybody uses: values, errors and pure rules. Imports nothing else of the bridge."""
