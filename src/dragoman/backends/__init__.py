"""What answers: each package here makes a `LanguageModel` of something else."""
